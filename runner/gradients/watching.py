"""The line that called one of PyTorch's process-wide switches, which no recorder sees."""

import sys
from types import FrameType, TracebackType
from typing import Any, Self

import torch

from runner.gradients.report import NOWHERE, Place
from runner.gradients.sources import Stack, text_of

_SWITCHES = {
    function.__code__
    for function in (
        torch.manual_seed,
        torch.random.manual_seed,
        torch.set_default_dtype,
        torch.autograd.set_detect_anomaly.__init__,
    )
    if hasattr(function, "__code__")
}


class Watching:
    """Notes the last caller of a switch while it is entered; slow, for diagnosis only."""

    def __init__(self, names: dict[int, str]) -> None:
        self.names = names
        self.place = NOWHERE
        self._before: Any = None

    def __enter__(self) -> Self:
        self._before = sys.getprofile()
        sys.setprofile(self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        sys.setprofile(self._before)

    def _note(self, frame: FrameType, event: str, argument: object) -> None:
        if event != "call" or frame.f_code not in _SWITCHES:
            return
        stack = Stack(frame.f_back)
        if stack.position:
            module = next((self.names[o] for o in stack.owners if o in self.names), None)
            self.place = Place(module, text_of(stack.position))

"""Finds the line that called one of PyTorch's process-wide switches, which no recorder sees."""

import sys
from types import FrameType, TracebackType
from typing import Any, Self

import torch

from gradient_check.findings.report import NOWHERE, Place
from gradient_check.instruments.sources import Stack, text_of

_SWITCHES = {
    function.__code__
    for function in (
        torch.manual_seed,
        torch.random.manual_seed,
        torch.set_default_dtype,
        torch.autograd.set_detect_anomaly.__init__,
        torch.use_deterministic_algorithms,
        torch.set_float32_matmul_precision,
    )
    if hasattr(function, "__code__")
}
_C_SWITCHES = {"set_num_threads", "set_flush_denormal"}
_C_CASTS = {"set_autocast_enabled"}


class Watching:
    """Records the last caller of a switch while the context is open; slow, for diagnosis only.

    Args:
        names: names of the modules, by their ids.
        casts: watch for autocast only.
    """

    def __init__(self, names: dict[int, str], *, casts: bool = False) -> None:
        self.names = names
        self.casts = casts
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
        wanted = _C_CASTS if self.casts else _C_SWITCHES
        if event == "c_call" and getattr(argument, "__name__", "") in wanted:
            stack = Stack(frame)
        elif event == "call" and not self.casts and frame.f_code in _SWITCHES:
            stack = Stack(frame.f_back)
        else:
            return
        if stack.position:
            module = next((self.names[o] for o in stack.owners if o in self.names), None)
            self.place = Place(module, text_of(stack.position))

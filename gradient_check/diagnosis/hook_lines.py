"""Finds the line of a backward hook that changes its gradient.

The hook runs under a recorder, in a backward of the subject. Runs only after a failure.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from gradient_check.diagnosis.culprits import address
from gradient_check.findings.report import Place
from gradient_check.instruments.event import RecordedCall
from gradient_check.instruments.recording import Recorder


class WatchedHook:
    """Replaces a hook, and records the call that changed the gradient.

    Args:
        hook: of a tensor, of a parameter after accumulation, or of a module.
    """

    def __init__(self, hook: Callable[..., Any]) -> None:
        self.hook = hook
        self.change: RecordedCall | None = None

    def __call__(self, *args: Any) -> Any:  # noqa: ANN401 - a hook takes and gives anything
        """Run the hook, and record the origin of its result."""
        given = _tensors(args)
        given += [t.grad for t in given if t.is_leaf and t.grad is not None]
        recorder = Recorder()
        with recorder:
            result = self.hook(*args)
        if self.change is None:
            self.change = _written(recorder, given) if result is None else _made(recorder, result)
        return result

    def place(self, of_hook: Place, names: dict[int, str]) -> Place:
        """Return the place of the change; of the hook if no call is known to make it."""
        line = None if self.change is None else self.change.place(names).line
        return Place(of_hook.module, line or of_hook.line)


def _made(recorder: Recorder, result: object) -> RecordedCall | None:
    """Return the last call on the way to a result with values other than its arguments'."""
    return next(filter(None, (_maker_of(recorder, tensor) for tensor in _tensors(result))), None)


def _maker_of(recorder: Recorder, tensor: Tensor) -> RecordedCall | None:
    """Return the last call that gave a tensor its values, except calls that only pass them on."""
    for event in reversed(recorder.events):
        if not any(tensor is each for each in event.outputs):
            continue
        same = _unchanged(event)
        if same is None:
            return event
        tensor = same
    return None


def _unchanged(event: RecordedCall) -> Tensor | None:
    """Return the argument whose values a call returns, as a copy, in another layout, or itself."""
    if event.writes:
        return None
    output = event.outputs[0]
    alike = (t for t in event.inputs if t.shape == output.shape)
    return next((t for t in alike if torch.equal(t.detach(), output.detach())), None)


def _written(recorder: Recorder, given: list[Tensor]) -> RecordedCall | None:
    """Return the last call that wrote to a hook's argument, or that gave it another gradient.

    If a parameter gets another tensor as its gradient, it is the call that made this tensor.
    """
    storages = {address(tensor) for tensor in given}
    for event in reversed(recorder.events):
        if event.name == "grad.__set__":
            return _made(recorder, event.inputs[1:]) or event
        if event.writes and event.inputs and address(event.inputs[0]) in storages:
            return event
    return None


def _tensors(value: object) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]

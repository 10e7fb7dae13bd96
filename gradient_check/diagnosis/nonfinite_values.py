"""Finds the call that made NaN or infinity, apart from intended infinities.

A mask inserts an infinity; the call that makes NaN of it is at fault. Runs only after a failure.
"""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from gradient_check.diagnosis.forward_diagnosis import ForwardDiagnosis
from gradient_check.findings.report import NOWHERE, Place
from gradient_check.instruments.event import RecordedCall
from gradient_check.instruments.recording import Recorder


class Origin(NamedTuple):
    """The call that first made a value not finite, and whether that was intended."""

    event: RecordedCall
    is_meant: bool


def nonfinite_place(forward: ForwardDiagnosis) -> Place:
    """Return the place of the call that made the losses NaN or infinite."""
    recorder = NonFiniteValues()
    _, losses = forward.record(recorder=recorder)
    origin = recorder.origins.get(id(losses))
    found = [origin] if origin is not None else recorder.found
    found = sorted(found, key=lambda each: each.is_meant)
    return found[0].event.place(forward.names) if found else NOWHERE


class NonFiniteValues(Recorder):
    """Records the origin of each value that is not finite.

    Values are examined while calls run, since later calls may write to them.

    Attributes:
        origins: of tensors, by id. Values that came from outside have none.
        found: all of them, in the order of the calls.
    """

    def __init__(self) -> None:
        super().__init__()
        self.origins: dict[int, Origin] = {}
        self.found: list[Origin] = []

    def __torch_function__(
        self,
        func: Any,  # noqa: ANN401 - PyTorch's protocol
        types: Any,  # noqa: ANN401
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        """Run one call, record it, and examine its arguments and results."""
        number, leaves = len(self.events), tree_leaves((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        has_nan, is_infinite = _has_nan(tensors), not _are_finite(tensors)
        result = super().__torch_function__(func, types, args, kwargs)
        event = self.events[number]
        given = [t for t in tree_leaves(result) if isinstance(t, Tensor)]
        changed = [t for t in event.outputs if not any(t is each for each in given)]
        outputs = [t for t in (*given, *changed) if not _are_finite([t])]
        if not outputs:
            return result
        origin = self._inherited(tensors)
        if _has_nan(outputs) and not has_nan and (origin is None or origin.is_meant):
            origin = Origin(event, _is_nan_meant(leaves))
        elif not is_infinite:
            origin = Origin(event, _is_meant(event, leaves))
        if origin is not None:
            self.found.append(origin)
            self.origins.update((id(tensor), origin) for tensor in outputs)
        return result

    def _inherited(self, tensors: Iterable[Tensor]) -> Origin | None:
        """Return the origin of arguments that are not finite; an unintended one comes first."""
        bad = (self.origins.get(id(t)) for t in tensors if not _are_finite([t]))
        found = [origin for origin in bad if origin is not None]
        return min(found, key=lambda origin: origin.is_meant, default=None)


def _is_meant(event: RecordedCall, leaves: Iterable[object]) -> bool:
    """Return whether a call was given the infinity that it inserts, or fills from memory."""
    is_filling = "fill" in event.name or "full" in event.name or "empty" in event.name
    return is_filling or any(isinstance(v, float) and not math.isfinite(v) for v in leaves)


def _is_nan_meant(leaves: Iterable[object]) -> bool:
    return any(isinstance(leaf, float) and math.isnan(leaf) for leaf in leaves)


def _are_finite(tensors: Iterable[Tensor]) -> bool:
    return all(bool(torch.isfinite(t.detach()).all()) for t in tensors if _has_values(t))


def _has_nan(tensors: Iterable[Tensor]) -> bool:
    return any(bool(torch.isnan(t.detach()).any()) for t in tensors if _has_values(t))


def _has_values(tensor: Tensor) -> bool:
    return tensor.is_floating_point() and not tensor.is_meta

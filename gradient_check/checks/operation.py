"""The answers and the state of the base while its replica is trained, for the checks of serving."""

from collections.abc import Mapping

import torch
from torch import Tensor

from gradient_check.checks.flow import GradientFlow
from gradient_check.instruments.draws import RecordedDraws
from gradient_check.phases.census import NO_SUMS, Census

_SAME = 1e-4  # relative: kernels chosen by grad mode or thread may differ in their last bits
_SAME_16_BIT = 5e-2


class Operation:
    """The base in operation; its state lasts from the first inference to the last check.

    Attributes:
        flow: the gradients of the base's replica.
        same: the relative difference that two losses of the same values may have.
        census: the census of the base; a later difference from the census is a change.
        early_changes: the changes to a base that was to share the caller's memory.
        served: the losses of the first inference; None before the first inference.
        draws: the random draws of an inference that has any; else None.
    """

    def __init__(self, flow: GradientFlow) -> None:
        self.flow = flow
        self.same = _SAME if flow.limits.noise < _SAME else _SAME_16_BIT
        self.census = self.new_census()
        self.early_changes: list[str] = []
        self.served: Tensor | None = None
        self.draws: RecordedDraws | None = None

    def new_census(self) -> Census:
        """Take a census of the base, whose parameters have the bits of the caller's module."""
        base, bits = self.flow.subject.base, self.flow.guard.bits
        own = dict(base.named_parameters(remove_duplicate=False))
        return Census.of(base, {name: known for name, known in bits.items() if name in own})

    def changes(self, known: Mapping[str, int] = NO_SUMS) -> list[str]:
        """Return how the base differs from the census, a phrase each; `known` as for a census."""
        changes = self.census.changes(self.flow.subject.base, known)
        return self.early_changes + [c for c in changes if not c.startswith("process flag")]

    def changes_at_end(self) -> list[str]:
        """Return all changes to the base, reading each tensor in the caller's memory once."""
        theirs = self.flow.guard.tensors
        own = dict(self.flow.subject.base.named_parameters(remove_duplicate=False))
        # a forward may add other parameters
        own = {name: p for name, p in own.items() if name in theirs}
        lent = [n for n, p in own.items() if p.numel() and p.data_ptr() == theirs[n].data_ptr()]
        known = self.flow.guard.bits_at_end() if lent else {}
        return self.changes({name: known[name] for name in lent})


def close(one: Tensor, other: Tensor, tolerance: float, scale: float = 0.0) -> bool:
    """Return whether losses agree within `tolerance` of the largest, or of their known scale."""
    if one.shape != other.shape:
        return False
    sizes = one.abs().nan_to_num(0.0, 0.0, 0.0)
    largest = max(scale, float(sizes.max()) if one.numel() else 0.0)
    return torch.allclose(
        one, other, rtol=0.0, atol=tolerance * max(largest, 1e-12), equal_nan=True
    )


def apart(one: Tensor, other: Tensor) -> str:
    """Return the means of two losses as a phrase for a message."""
    return f"losses {one.mean().item():.6g} and {other.mean().item():.6g}"

"""One recorded torch call: the line that made it, its tensors, and the cuts that flow into it."""

import torch
from torch import Tensor

from gradient_check.findings.report import Place
from gradient_check.instruments.graph import leaf_of, nodes
from gradient_check.instruments.sources import Stack, above, text_of, within
from gradient_check.phases.census import is_healthy

Cuts = frozenset["RecordedCall"]


class RecordedCall:
    """One torch call."""

    def __init__(self, name: str, stack: Stack, inputs: list[Tensor], index: int) -> None:
        self.name = name
        self.stack = stack
        self.inputs = inputs
        self.index = index
        self.outputs: list[Tensor] = []
        self.grad_enabled = torch.is_grad_enabled()
        self.in_inference_mode = torch.is_inference_mode_enabled()
        self.sources: Cuts = frozenset()
        needed = [t for t in inputs if t.requires_grad]
        self.leaves = {id(t) for t in needed if t.is_leaf}
        self.roots = [t.grad_fn for t in needed if t.grad_fn is not None]
        self.is_cut = False
        self._version = _version_of(inputs)
        self._has_written = False

    def end(self) -> None:
        """Record whether the call has written to its first tensor, as with `inplace=True`."""
        self._has_written = _version_of(self.inputs) != self._version

    @property
    def writes(self) -> bool:
        """Whether the call changes its first argument."""
        return self._has_written or _writes(self.name)

    @property
    def has_graph(self) -> bool:
        """Whether an argument is a leaf that wants a gradient, or has a graph."""
        return bool(self.leaves or self.roots)

    @property
    def size(self) -> int:
        """The number of values in the largest output."""
        return max((t.numel() for t in self.outputs), default=1)

    def reaches(self) -> set[int]:
        """Return the ids of the leaves that the cut values were computed from."""
        found = (leaf_of(node) for root in self.roots for node in nodes(root))
        return self.leaves | {id(leaf) for leaf in found if leaf is not None}

    def place(self, names: dict[int, str]) -> Place:
        """Return the innermost module that ran, and the line (a gradient-free block's head)."""
        position = self.stack.position
        if not self.grad_enabled and (self.is_cut or self.in_inference_mode):
            position = self.stack.checkpoint() or self.stack.grad_off() or position
        if self.name == "rewrap" and position:
            position = above(
                position,
                r"Parameter\(|Variable\(|from_numpy|Tensor\(|dlpack|frombuffer|\.data\s*=[^=]",
            )
        if self.is_cut and position and self.stack.in_custom_function:
            position = within(position, "mark_non_differentiable")
        owners = self.stack.owners_at_position if self.name == "rewrap" else self.stack.owners
        module = next((names[owner] for owner in owners if owner in names), None)
        inner = self.stack.position
        inside = text_of(inner) if inner and inner != position else None
        paths = tuple(names[owner].split(" (")[0] for owner in self.stack.owners if owner in names)
        line = text_of(position) if position else None
        return Place(module, line, inside, self.stack.around, paths)

    def entry(self, names: dict[int, str]) -> Place:
        """Return the innermost of these modules that ran, and its line that led to the call."""
        place = self.place(names)
        position = self.stack.entry_from(names)
        return Place(place.module, text_of(position)) if position else place


def _version_of(tensors: list[Tensor]) -> int:
    """Return the number of writes to the first tensor; 0 if PyTorch does not count the writes."""
    first = next(iter(tensors), None)
    return 0 if first is None or not is_healthy(first) else first._version


def _writes(name: str) -> bool:
    in_place = name.endswith("_") and not name.endswith("__")
    return (
        in_place
        or name in ("__setitem__", "data.__set__")
        or name.startswith("__i")
        and (name not in ("__index__", "__int__", "__invert__"))
    )

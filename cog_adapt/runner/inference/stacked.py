"""A replica whose forward serves rows of several adapters at once.

Its layers apply the pair of each row's adapter (`torch.bmm` over pairs stacked on a slot axis), and
its head is that of each row's adapter. Stacks are made from the tensors of `ServedAdapters` and
live for one forward, or while the same rows return; they are dropped with the first of their
adapters, so that no copy of it is left. A row meets no tensor of another row's adapter: values that
are not finite do not spread. This module knows no task and no request.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from weakref import ref

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cog_adapt.runner.inference.served_adapters import ReadyAdapter
from cog_adapt.runner.inference.structures import Structure
from cog_adapt.runner.modules.batch_rows import holders_of
from gradient_check.phases.modes import run_setup
from gradient_check.phases.replicas import freeze, serving_replica

# groups of rows: if more rows grow than share a forward, so many groups take turns
_MOST_GROUPS = 4
_MOST_KEPT_BYTES = 256 * 2**20
_Stacks = tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class _Group:
    """The stacks of the same rows, by the names of their layers."""

    refs: tuple[ref[ReadyAdapter], ...]  # weak references, so that the adapters can be freed
    stacks: dict[str, _Stacks] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        return sum(tensor.nbytes for pair in [*self.stacks.values()] for tensor in pair)


class PairStacks:
    """The stacked pairs of rows that return again and again, as those of growing answers do.

    A token of eight adapters of SmolLM2-135M took 213 ms of a core with stacks made for each
    forward, and takes 168 with these (146 if one adapter answers all eight).

    Args:
        most_bytes: of the cache; other stacks are made for each forward.
    """

    def __init__(self, most_bytes: int = _MOST_KEPT_BYTES) -> None:
        self._most_bytes = most_bytes
        self._groups: OrderedDict[tuple[int, ...], _Group] = OrderedDict()
        self._rows: Sequence[ReadyAdapter] | None = None
        self._free = 0

    @property
    def bytes(self) -> int:
        """Return the bytes in the cache."""
        return sum(group.bytes for group in [*self._groups.values()])

    @contextmanager
    def keeping(self, rows: Sequence[ReadyAdapter]) -> Iterator[None]:
        """Let the forward inside cache the stacks of its rows, if these have come before."""
        key = tuple(map(id, rows))
        known = key in self._groups
        if not known:
            self._groups[key] = _Group(tuple(ref(one, self._forgetting(key)) for one in {*rows}))
        self._groups.move_to_end(key)
        while len(self._groups) > _MOST_GROUPS:
            self._groups.popitem(last=False)
        self._rows = rows if known else None
        self._free = self._most_bytes - self.bytes
        try:
            yield
        finally:
            self._rows = None

    def of(self, place: str, rows: Sequence[ReadyAdapter], make: Callable[[], _Stacks]) -> _Stacks:
        """Return the stacks of a layer for these rows, cached or new."""
        if rows is not self._rows:
            return make()
        kept = next(reversed(self._groups.values())).stacks
        if place in kept:
            return kept[place]
        made = run_setup(make)
        self._free -= sum(tensor.nbytes for tensor in made)
        if self._free >= 0:
            kept[place] = made
        return made

    def clear(self) -> None:
        """Drop all stacks."""
        self._groups.clear()

    def _forgetting(self, key: tuple[int, ...]) -> Callable[[object], None]:
        groups = self._groups

        def forget(_gone: object) -> None:
            groups.pop(key, None)

        return forget


def stacked_replica(
    template: nn.Module, structure: Structure, stacks: PairStacks | None = None
) -> nn.Module:
    """Make the replica that serves a structure; its frozen tensors share the base's storage."""
    replica = serving_replica(template, {})
    stacks = stacks or PairStacks()
    for place, rank, scale in structure.pairs:
        layer = replica.get_submodule(place)
        layer.__class__ = StackedLinear
        assert isinstance(layer, StackedLinear)
        layer.place = place
        layer.rank = rank
        layer.scale = scale
        layer.stacks = stacks
    if structure.head:
        owner, _, leaf = structure.head.rpartition(".")
        setattr(replica.get_submodule(owner), leaf, StackedHead(structure.head))
    freeze(replica)
    return replica


class StackedLinear(nn.Linear):
    """`lora.LoRALinear`, with the pair of each row's adapter."""

    place: str
    rank: int
    scale: float
    stacks: PairStacks

    def forward(self, input: Tensor) -> Tensor:
        """Map shape (N, ..., in) to (N, ..., out)."""
        frozen = super().forward(input)
        holders = holders_of(len(input))
        if not any(served.pair(self.place) for served in holders):
            return frozen
        a, b = self.stacks.of(self.place, holders, partial(self._stacked, holders))
        rows = input.to(a.dtype).reshape(len(input), -1, self.in_features)
        low = torch.bmm(rows, a.transpose(1, 2)) * self.scale
        return frozen + torch.bmm(low, b).to(frozen.dtype).view_as(frozen)

    def _stacked(self, holders: Sequence[ReadyAdapter]) -> _Stacks:
        """Return each row's A (N, rank, in) and Bᵀ (N, rank, out); zeros for a row without both."""
        pairs = [served.pair(self.place) for served in holders]
        first = next(pair for pair in pairs if pair is not None)
        none = tuple(tensor.new_zeros(()).expand(tensor.shape) for tensor in first)
        a, b = zip(*(pair or none for pair in pairs), strict=True)
        return torch.stack(a), torch.stack(b).transpose(1, 2)


class StackedHead(nn.Module):
    """The head of each row's adapter, one after the other, padded to the widest.

    Attributes:
        widths: labels of each adapter since `forget_widths`, by the `id` of its `ReadyAdapter`. A
            model that runs its rows in groups may call its head once for each group.
    """

    def __init__(self, place: str) -> None:
        super().__init__()
        self.place = place
        self.widths: dict[int, int] = {}

    def forward(self, input: Tensor) -> Tensor:
        """Map shape (N, ...) to (N, ..., labels); rows with fewer labels end in zeros."""
        rows_of: dict[int, list[int]] = {}
        holders = holders_of(len(input))
        for row, served in enumerate(holders):
            rows_of.setdefault(id(served), []).append(row)
        groups = [torch.tensor(rows, device=input.device) for rows in rows_of.values()]
        outputs = [
            holders[rows[0]].part(self.place)(input[group])
            for rows, group in zip(rows_of.values(), groups, strict=True)
        ]
        self.widths |= {key: out.shape[-1] for key, out in zip(rows_of, outputs, strict=True)}
        widest = max(output.shape[-1] for output in outputs)
        padded = [F.pad(output, (0, widest - output.shape[-1])) for output in outputs]
        return torch.cat(padded)[torch.cat(groups).argsort()]


def forget_widths(replica: nn.Module) -> None:
    """Forget the labels of an earlier forward's adapters, which may have gone since."""
    for part in replica.modules():
        if isinstance(part, StackedHead):
            part.widths = {}

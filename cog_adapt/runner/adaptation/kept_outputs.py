"""The output of a model's last frozen block, stored for each example and returned for a batch.

A block of a private replica stops computing by a change of its class, so the model can still read
its other attributes. Texts are stored at their own lengths, one after the other, so that a batch is
one `index_select`. This module knows no task and no step.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_map_only

from cog_adapt.runner.errors import AdaptationError
from cog_adapt.runner.modules.batch_rows import rows_now


class UnfitTrunkError(AdaptationError):
    """The model's trunk cannot be stored; the message says why."""


class KeptOutputs:
    """Outputs by the positions of their examples; the model thread writes, then reads.

    Args:
        left: whether padding is on the left.

    Attributes:
        places: the place of each stored row, by the position of the row's example.
        bytes: the bytes of all rows.
    """

    def __init__(self, left: bool = False) -> None:
        self.left = left
        self.bytes = 0
        self._parts: list[Tensor] = []
        self._spec: Any = None
        self.places: dict[int, int] = {}
        self._ragged = False
        self._store = torch.empty(0)
        self._lengths = self._offsets = torch.empty(0, dtype=torch.int64)

    def add(self, output: Any, lengths: dict[int, int] | None) -> None:  # noqa: ANN401
        """Store a block's outputs for the current rows.

        Args:
            output: a tensor (N, ...), or a tuple or list with one.
            lengths: the length of each row without padding, along the second axis, by position;
                None: all rows are stored with their padding.
        """
        rows = rows_now()
        hidden = only_tensor(output)
        if len(hidden) != len(rows):
            raise UnfitTrunkError(f"a block gives {len(hidden)} rows for {len(rows)} examples")
        if not self.places.keys().isdisjoint(rows):
            raise UnfitTrunkError("a block runs twice for one example")
        self._spec = tree_map_only(Tensor, lambda _: _SLOT, output)
        for position, row in zip(rows, hidden.detach(), strict=True):
            self.places[position] = len(self._parts)
            own = row if lengths is None else self._own(row, lengths[position])
            self._parts.append(own.clone())
            self.bytes += own.nbytes

    def seal(self) -> None:
        """Join the parts; nothing is added afterwards."""
        parts, self._parts = self._parts, []
        self._ragged = any(part.shape != parts[0].shape for part in parts)
        if not self._ragged:
            self._store = torch.stack(parts)
            return
        if any(part.shape[1:] != parts[0].shape[1:] for part in parts):
            raise UnfitTrunkError("a block's outputs differ in more than their lengths")
        self._lengths = torch.tensor([len(part) for part in parts])
        self._offsets = 1 + self._lengths.cumsum(0) - self._lengths
        self._store = torch.cat([parts[0].new_zeros(1, *parts[0].shape[1:]), *parts])

    def recalled(self, hidden: Tensor) -> Any:  # noqa: ANN401 - as the block returns it
        """Return the outputs of the current rows, padded with 0 to the length of `hidden`."""
        places = torch.tensor([self.places[position] for position in rows_now()])
        if len(places) != len(hidden):
            raise UnfitTrunkError(f"a block gets {len(hidden)} rows for {len(places)} examples")
        if not self._ragged:
            return self.as_returned(
                self._store.index_select(0, places.to(self._store.device, non_blocking=True))
            )
        length, lengths = hidden.shape[1], self._lengths[places]
        if length < int(lengths.max()):
            raise UnfitTrunkError(f"a block gets {length} columns for a longer example")
        column = torch.arange(length) - (length - lengths[:, None] if self.left else 0)
        used = (column >= 0) & (column < lengths[:, None])
        index = torch.where(used, self._offsets[places][:, None] + column, 0)  # row 0 is padding
        found = self._store.index_select(
            0, index.flatten().to(self._store.device, non_blocking=True)
        )
        return self.as_returned(found.view(*index.shape, *found.shape[1:]))

    def as_returned(self, hidden: Tensor) -> Any:  # noqa: ANN401 - as the block returns it
        """Return the block's return value with `hidden` in place of its tensor."""
        return tree_map_only(_Slot, lambda _: hidden, self._spec)

    def _own(self, row: Tensor, length: int) -> Tensor:
        if length > len(row):
            raise UnfitTrunkError(f"a block gives {len(row)} columns for {length} tokens")
        return row[len(row) - length :] if self.left else row[:length]


class _Slot:
    """Marks the tensor's place."""


_SLOT = _Slot()


def only_tensor(output: Any) -> Tensor:  # noqa: ANN401 - whatever a block returns or gets
    """Return the one tensor in a block's return value whose rows are examples."""
    leaves = [leaf for leaf in tree_flatten(output)[0] if isinstance(leaf, Tensor)]
    if len(leaves) != 1 or leaves[0].dim() == 0:
        raise UnfitTrunkError(f"a block returns {len(leaves)} tensors, not one with rows")
    return leaves[0]


def recall(blocks: Sequence[nn.Module], kept: KeptOutputs) -> None:
    """Let the frozen blocks of a private replica return stored outputs; none of them computes."""
    for number, block in enumerate(blocks, 1):
        block._kept_outputs = kept  # type: ignore[assignment]
        block.__class__ = _kept(type(block), last=number == len(blocks))


def _kept(kind: type[nn.Module], last: bool) -> type[nn.Module]:
    def forward(block: nn.Module, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        kept: Any = block._kept_outputs
        hidden = next(v for v in (*args, *kwargs.values()) if isinstance(v, Tensor))
        return kept.recalled(hidden) if last else kept.as_returned(hidden)

    return type(f"Kept{kind.__name__}", (kind,), {"forward": forward})

"""Stores the encoded rows of examples, and gathers batches from them, bit for bit as a task does.

Rows are stored at their own lengths, without padding. The task's padding is learned by comparison:
the shortest and the longest rows of the first batch, and of the first one of unequal lengths, are
encoded both ways; if the two differ, every batch is encoded anew. Encoding 32 texts takes 11 ms,
which each step would pay without this store.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from cog_adapt.runner.task.task import Batch

MOST_BYTES = 256 * 2**20  # stored rows: 400 images of 224 x 224, or 100,000 short texts
_OF_A_TENSOR = 512  # bytes that a tensor takes besides its values

Encode = Callable[[Sequence[int]], Batch]
EncodeRow = Callable[[int], Batch]


class Padding(NamedTuple):
    """The value and the side by which a tensor's rows are made equally long."""

    value: float
    side: str


class RowStore:
    """Gathers batches from rows that were encoded once, bit for bit as `encode` makes them.

    Args:
        encode: gives the tensors of some examples by their positions.
        targets: the name of the targets' tensor.
        bucket: lengths are rounded up to multiples of `bucket`, at most to `longest`.
        most_bytes: rows beyond these bytes are encoded at each use.
        encode_row: gives the tensors of one example, without a batch axis; None: `encode` does.

    Attributes:
        longest: lengths of the longest example's tensors, by name.
        padding: how tensors of differing lengths are padded, by name.
        fits: whether gathered batches equal those of `encode`; None before the comparison.
    """

    def __init__(
        self,
        encode: Encode,
        targets: str,
        bucket: int = 1,
        most_bytes: int = MOST_BYTES,
        encode_row: EncodeRow | None = None,
    ) -> None:
        self.encode = encode
        self.encode_row = encode_row or partial(first_row, encode)
        self.targets = targets
        self.free_bytes = most_bytes
        self.bucket = bucket
        self.longest: dict[str, int] = {}
        self.padding: dict[str, Padding] = {}
        self.fits: bool | None = None
        self._rows: dict[int, Batch] = {}

    def gather(self, chosen: Sequence[int]) -> Batch:
        """Return the tensors of the chosen examples, a row for each."""
        if self.fits is False:
            return self.encode(chosen)
        rows = [self.row(position) for position in chosen]
        if self.fits and (batch := self._padded(rows, self.bucket)) is not None:
            return batch
        self.learn([chosen[place] for place in _ends_of(rows)])
        batch = self._padded(rows, self.bucket) if self.fits else None
        return self.encode(chosen) if batch is None else batch

    def joins(self, chosen: Sequence[int]) -> bool:
        """Return whether the padding that joins these examples' rows is known."""
        if not self.fits:
            return False
        rows = [self.row(position) for position in chosen]
        alike = (len({row[name].shape for row in rows}) == 1 for name in rows[0])
        return all(same or name in self.padding for same, name in zip(alike, rows[0], strict=True))

    def learn(self, chosen: Sequence[int]) -> None:
        """Learn these examples' padding to one batch, and whether their rows can be joined."""
        rows = [self.row(position) for position in chosen]
        self.fits = self._learn(rows, self.encode(chosen))

    def row(self, position: int) -> Batch:
        """Return the tensors of one example, without a batch axis."""
        if position in self._rows:
            return self._rows[position]
        row = self.encode_row(position)
        size = sum(tensor.nbytes + _OF_A_TENSOR for tensor in row.values())
        if size <= self.free_bytes:
            self.free_bytes -= size
            self._rows[position] = row
        return row

    def lengths(self, chosen: Sequence[int]) -> list[int] | None:
        """Return the examples' own lengths, or None if no padded length differs."""
        name = next((name for name in self.padding if name != self.targets), None)
        return None if name is None else [len(self.row(position)[name]) for position in chosen]

    @property
    def pads_left(self) -> bool:
        """Whether shorter rows are padded on the left."""
        return any(padding.side == "left" for padding in self.padding.values())

    def compare_lengths(self, positions: Sequence[int]) -> None:
        """Learn the padding from the shortest and the longest of these examples; set `longest`."""
        sizes = [sum(t.numel() for t in self.row(position).values()) for position in positions]
        order = sorted(range(len(positions)), key=sizes.__getitem__)
        ends = [positions[order[0]], positions[order[-1]]]
        if self.fits is not False:
            self.gather(ends)
        self.longest = {name: len(t) for name, t in self.row(ends[1]).items() if t.dim()}

    def _learn(self, rows: Sequence[Batch], whole: Batch) -> bool:
        """Learn the padding from one batch; return whether the gathered batch equals it."""
        if any(row.keys() != whole.keys() for row in rows):
            return False
        for name, tensor in whole.items():
            if (found := _padding(tensor, [row[name] for row in rows])) is not None:
                self.padding[name] = found
        batch = self._padded(rows, 1)
        return batch is not None and all(
            batch[n].dtype == t.dtype and torch.equal(batch[n], t) for n, t in whole.items()
        )

    def _padded(self, rows: Sequence[Batch], bucket: int) -> Batch | None:
        """Return the rows as one batch; None if a padding is not known yet."""
        batch: Batch = {}
        for name in rows[0]:
            joined = self._joined(name, [row[name] for row in rows], bucket)
            if joined is None:
                return None
            batch[name] = joined
        return batch

    def _joined(self, name: str, parts: list[Tensor], bucket: int) -> Tensor | None:
        padding = self.padding.get(name)
        if padding is None:
            same = all(part.shape == parts[0].shape for part in parts)
            return torch.stack(parts) if same else None
        if any(part.shape[1:] != parts[0].shape[1:] for part in parts):
            return None
        most = max(map(len, parts))
        length = max(most, min(-(-most // bucket) * bucket, self.longest.get(name, 0)))
        longer = [parts[0].new_empty(length, *parts[0].shape[1:])] if length > most else []
        return pad_sequence(parts + longer, True, padding.value, padding.side)[: len(parts)]


def first_row(encode: Encode, position: int) -> Batch:
    """Encode one example, without a batch axis."""
    return {name: tensor[0] for name, tensor in encode([position]).items()}


def _ends_of(rows: Sequence[Batch]) -> list[int]:
    """Return the places of the first and last row, and of each tensor's shortest and longest."""
    places = range(len(rows))
    found = {0, len(rows) - 1}
    for name in [name for name, tensor in rows[0].items() if tensor.dim()]:
        lengths = [len(row[name]) for row in rows]
        found |= {min(places, key=lengths.__getitem__), max(places, key=lengths.__getitem__)}
    return sorted(found)


def _padding(whole: Tensor, parts: Sequence[Tensor]) -> Padding | None:
    """Find how the shortest part was padded to its row of `whole`; None without padding."""
    if any(part.dim() == 0 or part.shape[1:] != whole.shape[2:] for part in parts):
        return None
    row = min(range(len(parts)), key=lambda index: len(parts[index]))
    short = len(parts[row])
    if short == 0 or short >= whole.shape[1]:
        return None
    side = "right" if torch.equal(whole[row, :short], parts[row]) else "left"
    fill = whole[row, short:] if side == "right" else whole[row, : whole.shape[1] - short]
    return Padding(fill.flatten()[0].item(), side)

"""Encodes each example of an adaptation once; a step's batch is gathered from the kept rows.

Rows are kept at their own lengths, without padding. How a task pads is learned by comparison: the
first batch, and the first one of unequal lengths, are encoded both ways, and where the two are not
equal every batch is encoded anew. On a GPU lengths are rounded up, so that few shapes occur.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from cog_adapt.runner.start import Rows, Start
from cog_adapt.runner.task import Batch, on_device

MOST_BYTES = 256 * 2**20  # of kept rows: 400 images of 224 x 224, or a million short texts
_MULTIPLE = 16  # lengths on a GPU are multiples of this
_SAMPLED = 256  # examples whose longest bounds a rounded length: a model may end there
_TARGETS = "\0targets"

Encode = Callable[[Sequence[int]], Batch]


class Padding(NamedTuple):
    """How a tensor's rows are made equally long: with which value, on which side."""

    value: float
    side: str


class RowStore:
    """Gathers batches from rows that were encoded once, bit for bit as `encode` makes them.

    Args:
        encode: gives the tensors of some examples by their positions.
        most_bytes: rows beyond them are encoded at each use.
        bucket: lengths are rounded up to multiples of it, at most to `longest`.
    """

    def __init__(self, encode: Encode, most_bytes: int = MOST_BYTES, bucket: int = 1) -> None:
        self.encode = encode
        self.free_bytes = most_bytes
        self.bucket = bucket
        self.longest: dict[str, int] = {}
        self.padding: dict[str, Padding] = {}
        self.fits: bool | None = None  # None: not compared yet
        self._rows: dict[int, Batch] = {}

    def gather(self, chosen: Sequence[int]) -> Batch:
        """Return the tensors of the chosen examples, a row for each."""
        if self.fits is False:
            return self.encode(chosen)
        rows = [self.row(position) for position in chosen]
        if self.fits and (batch := self._padded(rows, self.bucket)) is not None:
            return batch
        whole = self.encode(chosen)
        self.fits = self._learn(rows, whole)
        batch = self._padded(rows, self.bucket) if self.fits else None
        return whole if batch is None else batch

    def row(self, position: int) -> Batch:
        """Return the tensors of one example, without a batch axis."""
        if position in self._rows:
            return self._rows[position]
        row = {name: tensor[0] for name, tensor in self.encode([position]).items()}
        size = sum(tensor.nbytes for tensor in row.values())
        if size <= self.free_bytes:
            self.free_bytes -= size
            self._rows[position] = row
        return row

    def lengths(self, chosen: Sequence[int]) -> list[int] | None:
        """Return the examples' own lengths, or None where no length differs that is padded."""
        name = next((name for name in self.padding if name != _TARGETS), None)
        return None if name is None else [len(self.row(position)[name]) for position in chosen]

    @property
    def pads_left(self) -> bool:
        """Whether shorter rows are padded on the left."""
        return any(padding.side == "left" for padding in self.padding.values())

    def sample(self, count: int) -> None:
        """Set `longest` from the first examples."""
        for position in range(min(count, _SAMPLED)):
            for name, tensor in self.row(position).items():
                if tensor.dim():
                    self.longest[name] = max(self.longest.get(name, 0), len(tensor))

    def _learn(self, rows: Sequence[Batch], whole: Batch) -> bool:
        """Learn the padding from one batch; return whether gathering gives that batch."""
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
        """Return the rows as one batch; None where a padding is not known yet."""
        batch: Batch = {}
        for name in rows[0]:
            parts = [row[name] for row in rows]
            if name not in self.padding:
                if any(part.shape != parts[0].shape for part in parts):
                    return None
                batch[name] = torch.stack(parts)
                continue
            if any(part.shape[1:] != parts[0].shape[1:] for part in parts):
                return None
            value, side = self.padding[name]
            most = max(map(len, parts))
            length = max(most, min(-(-most // bucket) * bucket, self.longest.get(name, 0)))
            if length > most:
                parts.append(parts[0].new_zeros(length, *parts[0].shape[1:]))
            padded = pad_sequence(parts, True, value, side)
            batch[name] = padded[: len(rows)]
        return batch


def _padding(whole: Tensor, parts: Sequence[Tensor]) -> Padding | None:
    """Find how the shortest of the parts was padded to its row of `whole`; None if it was not."""
    if any(part.dim() == 0 or part.shape[1:] != whole.shape[2:] for part in parts):
        return None
    row = min(range(len(parts)), key=lambda index: len(parts[index]))
    short = len(parts[row])
    if short == 0 or short >= whole.shape[1]:
        return None
    side = "right" if torch.equal(whole[row, :short], parts[row]) else "left"
    fill = whole[row, short:] if side == "right" else whole[row, : whole.shape[1] - short]
    return Padding(fill.flatten()[0].item(), side)


class EncodedExamples:
    """The examples of a start, as batches on its device."""

    def __init__(self, start: Start) -> None:
        self.start = start
        self.device = start.precision.device
        on_cpu = self.device.type == "cpu"
        self.store = RowStore(self._encode, bucket=1 if on_cpu else _MULTIPLE)
        if not on_cpu:
            self.store.sample(len(start.examples))

    def rows(self, chosen: Sequence[int]) -> Rows:
        """Return the batch, the targets and the weights of examples by their positions."""
        tensors = on_device(self.store.gather(chosen), self.device)
        return Rows(tensors, tensors.pop(_TARGETS), self._weights(chosen), tuple(chosen))

    def _weights(self, chosen: Sequence[int]) -> Tensor | None:
        weights = self.start.weights
        if weights is None:
            return None
        return torch.tensor([weights[position] for position in chosen], device=self.device)

    def _encode(self, chosen: Sequence[int]) -> Batch:
        start = self.start
        examples = [start.examples[position] for position in chosen]
        targets = start.task.encode_targets([e.target for e in examples], start.labels)
        return {**start.task.encode([e.input for e in examples]), _TARGETS: targets}

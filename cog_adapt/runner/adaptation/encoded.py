"""The examples of an adaptation as batches on its device: tensors, targets and weights."""

from collections.abc import Generator, Sequence

import torch
from torch import Tensor

from cog_adapt.runner.adaptation.gradient_step import Part
from cog_adapt.runner.adaptation.row_store import RowStore, first_row
from cog_adapt.runner.adaptation.start import Rows, Start
from cog_adapt.runner.adaptation.step_parts import cost_of, cut
from cog_adapt.runner.decoding import encoded
from cog_adapt.runner.input_sizes import portions
from cog_adapt.runner.task import Batch, on_device

_MULTIPLE = 16  # lengths on a GPU are multiples of this
_MEASURED = 256  # examples whose longest bounds a rounded length: a model may end there
_TARGETS = "\0targets"


class EncodedExamples:
    """The examples of a start, as batches on its device."""

    def __init__(self, start: Start) -> None:
        self.start = start
        self.device = start.precision.device
        self._costs: dict[int, int] = {}
        on_cpu = self.device.type == "cpu"
        bucket = 1 if on_cpu else _MULTIPLE
        self.store = RowStore(self._encode, _TARGETS, bucket, encode_row=self._encode_row)
        self._is_measured = on_cpu
        self._measured = min(len(start.examples), _MEASURED)

    def encoding(self, chosen: Sequence[int], size: int) -> Generator[None, None, None]:
        """Encode the examples at these positions, so many at a tick and as many as fit it.

        On a GPU the lengths of some are compared first.
        """
        if not self._is_measured:
            yield from self._encoding(range(self._measured), size)
            yield None
            self._measure()
        yield from self._encoding(chosen, size)

    def _encoding(self, chosen: Sequence[int], size: int) -> Generator[None, None, None]:
        left = [place for place in dict.fromkeys(chosen) if place not in self._costs]
        inputs = [self.start.examples[place].input for place in left]
        for some in portions(inputs, size):
            for place in left[some]:
                self._cost(place)
            if some.stop < len(left):
                yield None

    def rows(self, chosen: Sequence[int]) -> Rows:
        """Return the batch, the targets and the weights of examples by their positions."""
        self._measure()
        tensors = on_device(self.store.gather(chosen), self.device)
        return Rows(tensors, tensors.pop(_TARGETS), self._weights(chosen), tuple(chosen))

    def groups(self, chosen: Sequence[int], relief: float = 1.0) -> list[list[int]]:
        """Cut a batch into parts by the limit of the start; return their positions.

        Args:
            chosen: positions of the batch's examples.
            relief: how many times less than in a full step a token costs.
        """
        costs = [self._cost(position) for position in chosen]
        parts = cut(costs, self.start.limit.of(relief), self._size)
        return [[chosen[row] for row in part] for part in parts]

    def largest(self, groups: Sequence[Sequence[int]]) -> int:
        """Return the tokens, with padding, of the largest of these parts."""
        return max(self._size([*map(self._cost, group)]) for group in groups)

    def parts(self, groups: Sequence[Sequence[int]]) -> list[Part]:
        """Return the parts of a batch, by the positions of each."""
        if len(groups) == 1:
            return [Part(self.rows(groups[0]))]
        whole = [position for group in groups for position in group]
        weights = self._weights(whole)
        mean = None if weights is None else weights.mean()
        parts, first = [], 0
        for group in groups:
            rows = self.rows(group)._replace(mean_weight=mean, earlier=tuple(whole[:first]))
            parts.append(Part(rows, len(group) / len(whole)))
            first += len(group)
        return parts

    def _measure(self) -> None:
        """Compare the lengths of some examples, once."""
        if not self._is_measured:
            self._is_measured = True
            self.store.compare_lengths(range(self._measured))

    def _size(self, costs: Sequence[int]) -> int:
        return self.start.task.counts.all(costs, self.device)

    def _cost(self, position: int) -> int:
        if position not in self._costs:
            row = dict(self.store.row(position))
            target = row.pop(_TARGETS)
            tokens = self.start.task.counts.of(row, target, self.device)
            self._costs[position] = tokens or cost_of(row)
        return self._costs[position]

    def _weights(self, chosen: Sequence[int]) -> Tensor | None:
        weights = self.start.weights
        if weights is None:
            return None
        values = torch.tensor([weights[position] for position in chosen])
        return values.to(self.device, non_blocking=True)

    def _encode_row(self, position: int) -> Batch:
        """Encode one example; its input's tensors are kept for other runs, where any are."""
        start = self.start
        if start.kept_rows is None:
            return first_row(self._encode, position)
        example = start.examples[position]
        row = start.kept_rows.get_row(example.input)
        if row is None:
            batch = encoded(start.task, [example.input])
            row = {name: tensor[0] for name, tensor in batch.items()}
            start.kept_rows.put_row(example.input, row)
        return {**row, _TARGETS: start.task.encode_targets([example.target], start.labels)[0]}

    def _encode(self, chosen: Sequence[int]) -> Batch:
        start = self.start
        examples = [start.examples[position] for position in chosen]
        targets = start.task.encode_targets([e.target for e in examples], start.labels)
        return {**encoded(start.task, [e.input for e in examples]), _TARGETS: targets}

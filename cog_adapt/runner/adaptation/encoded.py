"""The examples of an adaptation as batches on its device: tensors, targets and weights."""

from collections.abc import Generator, Sequence
from typing import Any, overload

import torch
from torch import Tensor

from cog_adapt.runner.adaptation.row_store import RowStore, first_row
from cog_adapt.runner.adaptation.start import Start, StepRows, prepare_examples
from cog_adapt.runner.adaptation.step_parts import cost_of, cut
from cog_adapt.runner.data.plain_values import characters_of
from cog_adapt.runner.errors import InputError
from cog_adapt.runner.task.decoding import encoded
from cog_adapt.runner.task.input_sizes import PAIR_CHARACTERS, fitting, portions
from cog_adapt.runner.task.task import Batch, on_device, prepares
from gradient_check.phases.gradient_step import BatchPart

_MULTIPLE = 16  # lengths on a GPU are rounded up to multiples of this
# the longest of so many examples bounds a rounded length: the model's context may end there
_MEASURED = 256
_TARGETS = "\0targets"


class EncodedExamples:
    """The examples of a start, as batches on its device."""

    def __init__(self, start: Start) -> None:
        self.start = start
        self.device = start.training.precision.device
        self._costs: dict[int, int] = {}
        on_cpu = self.device.type == "cpu"
        bucket = 1 if on_cpu else _MULTIPLE
        self.store = RowStore(self._encode, _TARGETS, bucket, encode_row=self._encode_row)
        self._is_measured = on_cpu
        self._measured = min(len(start.data.examples), _MEASURED)

    def encoding(self, chosen: Sequence[int], size: int) -> Generator[None, None, None]:
        """Encode the examples at these positions, as many in a tick as fit.

        On a GPU the lengths of some are compared first.
        """
        if not self._is_measured:
            yield from self._encoding(range(self._measured), size)
            yield None
            yield from self.comparing(range(self._measured))
            self._measure()
        yield from self._encoding(chosen, size)

    def comparing(self, chosen: Sequence[int]) -> Generator[None, None, None]:
        """Determine whether these rows can be joined, from a short and a long one.

        If these two do not show how the others are padded, none are joined from here on.
        """
        if len(chosen) < 2 or self.store.joins(chosen):
            return
        yield from self.pausing(chosen)
        if self.store.fits is False:
            return
        if pair := self._pair(chosen) or self._pair([self._fewest(), *chosen]):
            self.store.learn(pair)
        if not self.store.joins(chosen):
            self.store.fits = False
        yield from self.pausing(chosen)

    def _pair(self, chosen: Sequence[int]) -> list[int]:
        """Return the shortest of these, and the longest that a tick can encode beside it."""
        shortest = min(chosen, key=lambda position: (self._cost(position), self._size_of(position)))
        left = PAIR_CHARACTERS - self._size_of(shortest)
        others = sorted({*chosen} - {shortest}, key=self._cost, reverse=True) or [shortest]
        longest = next((each for each in others if self._size_of(each) <= left), None)
        return [] if longest is None else [shortest, longest]

    def _fewest(self) -> int:
        """Return the position of the example with the fewest characters."""
        return min(range(len(self.start.data.examples)), key=self._size_of)

    def fits_a_tick(self, chosen: Sequence[int]) -> bool:
        """Return whether a tick can make a batch of these: they join, or have few characters."""
        is_short = sum(map(self._size_of, chosen)) <= PAIR_CHARACTERS
        return is_short or self.store.fits is not False

    def pausing(self, chosen: Sequence[int]) -> Generator[None, None, None]:
        """Give others a tick if the texts of these examples fill more than one."""
        if fitting(self._inputs(chosen)) < len(chosen):
            yield None

    def _size_of(self, position: int) -> int:
        return characters_of(self.start.data.examples[position].input)

    def _inputs(self, chosen: Sequence[int]) -> list[Any]:
        return [self.start.data.examples[position].input for position in chosen]

    def _encoding(self, chosen: Sequence[int], size: int) -> Generator[None, None, None]:
        left = [place for place in dict.fromkeys(chosen) if place not in self._costs]
        is_prepared = prepares(self.start.task)
        if is_prepared:
            size = 1  # a forward of the base for each
        for some in portions(self._inputs(left), size):
            for place in left[some]:
                self._cost(place)
            if some.stop < len(left) or is_prepared:
                yield None

    def rows(self, chosen: Sequence[int]) -> StepRows:
        """Return the batch, the targets and the weights of examples by their positions."""
        self._measure()
        tensors = on_device(self.store.gather(chosen), self.device)
        return StepRows(
            batch=tensors,
            targets=tensors.pop(_TARGETS),
            weights=self.weights(chosen),
            positions=tuple(chosen),
        )

    def groups(self, chosen: Sequence[int], relief: float = 1.0) -> list[list[int]]:
        """Cut a batch into parts by the limit of the start; return their positions.

        Args:
            chosen: positions of the batch's examples.
            relief: the cost of a token in a full step, divided by its cost here.
        """
        costs = [self._cost(position) for position in chosen]
        parts = cut(costs, self.start.training.limit.of(relief), self._size)
        groups = [[chosen[row] for row in part] for part in parts]
        if self.store.fits is False:
            return [some for group in groups for some in self._light(group)]
        return groups

    def largest(self, groups: Sequence[Sequence[int]]) -> int:
        """Return the tokens, with padding, of the largest of these parts."""
        return max(self._size([*map(self._cost, group)]) for group in groups)

    def parts(self, groups: Sequence[Sequence[int]]) -> Sequence[BatchPart]:
        """Return the parts of a batch, by the positions of each; each is made when it is taken."""
        return _Parts(self, groups)

    def weights(self, chosen: Sequence[int]) -> Tensor | None:
        """Return the weights of examples by their positions; None: equal weights."""
        weights = self.start.data.weights
        if weights is None:
            return None
        values = torch.tensor([weights[position] for position in chosen])
        return values.to(self.device, non_blocking=True)

    def _light(self, group: Sequence[int]) -> list[list[int]]:
        """Cut a part into smaller ones that a tick can encode, if it has to be encoded."""
        return [[*group[some]] for some in portions(self._inputs(group), len(group))]

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

    def _encode_row(self, position: int) -> Batch:
        """Encode one example; its input's tensors are cached for other runs if there is a cache."""
        start = self.start
        if prepares(start.task):
            batch, targets = prepare_examples(start, [start.data.examples[position]])
            return {name: t[0].cpu() for name, t in {**batch, _TARGETS: targets}.items()}
        if start.data.kept_rows is None:
            return first_row(self._encode, position)
        example = start.data.examples[position]
        row = start.data.kept_rows.get_row(example.input)
        if row is None:
            batch = encoded(start.task, [example.input])
            row = {name: tensor[0] for name, tensor in batch.items()}
            start.data.kept_rows.put_row(example.input, row)
        return {**row, _TARGETS: start.task.encode_targets([example.target], start.data.labels)[0]}

    def _encode(self, chosen: Sequence[int]) -> Batch:
        start = self.start
        if prepares(start.task):
            return self._stacked([self.store.row(position) for position in chosen])
        examples = [start.data.examples[position] for position in chosen]
        targets = start.task.encode_targets([e.target for e in examples], start.data.labels)
        return {**encoded(start.task, [e.input for e in examples]), _TARGETS: targets}

    def _stacked(self, rows: Sequence[Batch]) -> Batch:
        """Return prepared rows as one batch."""
        for name, first in rows[0].items():
            other = next((r[name].shape for r in rows if r[name].shape != first.shape), None)
            if other is not None:
                what = "the targets" if name == _TARGETS else repr(name)
                raise InputError(
                    f"{type(self.start.task).__name__}.prepare gave {what} of shapes "
                    f"{tuple(first.shape)} and {tuple(other)}. Return one shape for all examples."
                )
        return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}


class _Parts(Sequence[BatchPart]):
    """The parts of a batch, each made at its own tick; rows that do not join are encoded then."""

    def __init__(self, examples: EncodedExamples, groups: Sequence[Sequence[int]]) -> None:
        self._examples = examples
        self._groups = groups
        self._whole = [position for group in groups for position in group]
        weights = examples.weights(self._whole) if len(groups) > 1 else None
        self._mean = None if weights is None else weights.mean()

    def __len__(self) -> int:
        return len(self._groups)

    @overload
    def __getitem__(self, number: int) -> BatchPart: ...

    @overload
    def __getitem__(self, number: slice) -> Sequence[BatchPart]: ...

    def __getitem__(self, number: int | slice) -> BatchPart | Sequence[BatchPart]:
        if isinstance(number, slice):
            return [self[each] for each in range(len(self))[number]]
        group = self._groups[number]
        if len(self) == 1:
            return BatchPart(self._examples.rows(group))
        earlier = tuple(self._whole[: sum(map(len, self._groups[:number]))])
        rows = self._examples.rows(group)._replace(mean_weight=self._mean, earlier=earlier)
        return BatchPart(rows, len(group) / len(self._whole))

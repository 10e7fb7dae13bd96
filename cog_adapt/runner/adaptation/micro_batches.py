"""The steps of a run, a part of a batch a tick; if memory runs out, once with smaller parts.

A batch stays whole if an example's loss depends on the other examples: a task says so, a layer
shows it, or a few examples alone have other losses. This module knows no schedule of steps.
"""

import logging
import traceback
from collections import deque
from collections.abc import Callable, Generator, Sequence

import torch
from torch import Tensor, nn

from cog_adapt.runner.adaptation.encoded import EncodedExamples
from cog_adapt.runner.adaptation.start import Start, example_loss, prepare_examples
from cog_adapt.runner.adaptation.step_parts import ALL_WEIGHTS, cost_of, mixes_rows
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.data.plain_values import characters_of
from cog_adapt.runner.modules.batch_rows import holding
from cog_adapt.runner.task.input_sizes import PAIR_CHARACTERS, fitting
from cog_adapt.runner.task.task import Batch, prepares
from gradient_check.phases.gradient_step import GradientStep, StepResult
from gradient_check.phases.memory import free_cache, is_out_of_memory
from gradient_check.phases.modes import run_inference
from gradient_check.phases.randomness import seeded
from gradient_check.phases.replicas import serving_replica

_TRIED = 4  # examples whose losses are computed both together and alone
# share of the largest loss: another batch shape rounds differently, most of all in 16 bits
_EXACT, _ROUGH = 1e-2, 3e-2
_LEAST = 1e-6
_UNFIT = (RuntimeError, ValueError, TypeError, LookupError, ArithmeticError)
logger = logging.getLogger(__name__)

Groups = list[list[int]]


class MicroBatches:
    """Takes the steps of one run.

    Args:
        start: the start of the run.
        examples: the examples of the run.
        take_step: a function that takes one step.

    Attributes:
        relief: the cost of a token in a step that trains few weights of all blocks, divided by its
            cost here: more than 1 once the frozen blocks' outputs are stored, less if a CPU trains
            most weights.
    """

    def __init__(self, start: Start, examples: EncodedExamples, take_step: GradientStep) -> None:
        self.start = start
        self.examples = examples
        self.take_step = take_step
        usual = take_step.precision.device.type == "cpu" and not start.task.part_tokens
        self.relief = ALL_WEIGHTS if usual and _trains_most(take_step.replica) else 1.0

    def step(
        self, chosen: Sequence[int], seed: int, is_over: Callable[[], bool]
    ) -> Generator[None, None, StepResult | None]:
        """Take one optimizer step, a part of the batch a tick.

        Args:
            chosen: positions of the batch's examples.
            seed: of the step.
            is_over: asked between two parts; if true, the step is given up and the result is None.
        """
        groups = yield from self.groups(chosen)
        if self.start.training.limit.is_due:
            groups = self._smaller(groups, chosen)
        try:
            return self._counted((yield from self._taken(groups, seed, is_over)))
        except (RuntimeError, MemoryError) as error:
            if not self._may_be_smaller(groups, error):
                raise
        free_cache(self.take_step.precision.device)
        groups = self._smaller(groups, chosen)
        limit = self.start.training.limit
        logger.warning(
            "memory ran out in step %d: from now on a part of a step has at most %d tokens",
            limit.halved_at,
            limit.halved_to,
        )
        return self._counted((yield from self._taken(groups, seed, is_over)))

    def groups(self, chosen: Sequence[int]) -> Generator[None, None, Groups]:
        """Cut a batch into parts if no loss changes by it; return the positions of each part."""
        yield from self.examples.encoding(chosen, len(chosen))
        yield from self.examples.comparing(chosen)
        groups, limit = self.examples.groups(chosen, self.relief), self.start.training.limit
        if len(groups) > 1 and limit.rows_are_independent is None:
            yield from self.examples.pausing(chosen)
            yield from self._looks()
            yield None
        return groups if limit.rows_are_independent else [[*chosen]]

    def _taken(
        self, groups: Groups, seed: int, is_over: Callable[[], bool]
    ) -> Generator[None, None, StepResult | None]:
        work = self.take_step.ticks(self.examples.parts(groups), seed)
        try:
            next(work)
            yield None
            left = len(groups) - 1
            while left <= 0 or not is_over():  # an update that has begun runs to its end
                left -= 1
                next(work)
                yield None
        except StopIteration as stop:
            result: StepResult = stop.value
            return result
        finally:
            work.close()
        return None

    def _counted(self, result: StepResult | None) -> StepResult | None:
        self.start.training.limit.steps += result is not None
        return result

    def _may_be_smaller(self, groups: Groups, error: BaseException) -> bool:
        limit = self.start.training.limit
        if not is_out_of_memory(error) or limit.halved_at is not None or max(map(len, groups)) == 1:
            return False
        traceback.clear_frames(error.__traceback__)  # the frames' locals keep activations alive
        if limit.rows_are_independent is None:
            deque(self._looks(), maxlen=0)
        return bool(limit.rows_are_independent)

    def _smaller(self, groups: Groups, chosen: Sequence[int]) -> Groups:
        self.start.training.limit.halve(self.examples.largest(groups))
        return self.examples.groups(chosen, self.relief)

    def _looks(self) -> Generator[None, None, None]:
        """Determine whether an example's loss depends on the others of its batch."""
        is_independent = not mixes_rows(self.take_step.replica, self.take_step.training)
        if is_independent:
            is_independent = yield from rows_are_independent(self.start)
        self.start.training.limit.rows_are_independent = is_independent


def rows_are_independent(start: Start) -> Generator[None, None, bool]:
    """Return whether a few examples have the same losses alone, before any step.

    One tick computes the examples' losses together; then a tick for each computes its loss alone.
    Of examples that are a part each, two are compared.
    """
    if not start.task.rows_are_independent:
        return False
    device = start.training.precision.device
    tensors = {name: tensor.to(device) for name, tensor in start.trained.tensors.items()}
    replica = serving_replica(start.trained.template, tensors, start.trained.scales)
    chosen = _tried(start.data.examples)
    try:
        pair = yield from _encoded(start, chosen)
        if _are_parts(pair[0], start.training.limit.tokens):
            chosen, pair = chosen[:2], _first_two(pair)
        together = _losses(start, replica=replica, chosen=chosen, pair=pair)
        each = list[Tensor]()
        for position in chosen:
            yield None
            one = prepare_examples(start, [start.data.examples[position]])
            each.append(_losses(start, replica=replica, chosen=[position], pair=one))
        alone = torch.cat(each)
    except _UNFIT as error:
        if is_out_of_memory(error):
            raise
        return False  # such a loss needs several rows
    limit = _ROUGH if start.training.precision.autocasts else _EXACT
    near = limit * max(float(together.abs().max()), _LEAST)
    return together.shape == alone.shape and torch.allclose(together, alone, rtol=0.0, atol=near)


def _are_parts(batch: Batch, tokens: int) -> bool:
    """Return whether each row is longer than a part."""
    rows = range(len(next(iter(batch.values()))))
    return all(cost_of({name: each[row] for name, each in batch.items()}) > tokens for row in rows)


def _first_two(pair: tuple[Batch, Tensor]) -> tuple[Batch, Tensor]:
    batch, targets = pair
    return {name: each[:2] for name, each in batch.items()}, targets[:2]


def _tried(examples: Sequence[Example]) -> list[int]:
    """Return the positions of some examples that a tick can encode, or of the two shortest."""
    last = len(examples) - 1
    chosen = sorted({last * number // (_TRIED - 1) for number in range(_TRIED)})
    chosen = chosen[: max(2, fitting([examples[position].input for position in chosen]))]
    sizes = [characters_of(example.input) for example in examples]
    if sum(sizes[position] for position in chosen) <= PAIR_CHARACTERS:
        return chosen
    return sorted(sorted(range(len(examples)), key=sizes.__getitem__)[:2])


def _encoded(start: Start, chosen: Sequence[int]) -> Generator[None, None, tuple[Batch, Tensor]]:
    """Encode examples to one batch; long examples that join take a tick each.

    A tokenizer cuts long texts to the same length, so long texts nearly always join.
    """
    rows = [start.data.examples[position] for position in chosen]
    if sum(characters_of(row.input) for row in rows) > PAIR_CHARACTERS or prepares(start.task):
        parts = list[tuple[Batch, Tensor]]()
        for row in rows:
            parts.append(prepare_examples(start, [row]))
            yield None
        batches, targets = [batch for batch, _ in parts], [target for _, target in parts]
        if all(len({batch[name].shape for batch in batches}) == 1 for name in batches[0]):
            joined = {name: torch.cat([batch[name] for batch in batches]) for name in batches[0]}
            return joined, torch.cat(targets)
    return prepare_examples(start, rows)


def _losses(
    start: Start, replica: nn.Module, chosen: Sequence[int], pair: tuple[Batch, Tensor]
) -> Tensor:
    device = start.training.precision.device
    with seeded(0, device), holding(chosen):
        return (
            run_inference(
                example_loss(start.task), replica, start.training.precision, "no_grad", pair
            )
            .float()
            .reshape(-1)
        )


def _trains_most(replica: nn.Module) -> bool:
    numbers = [(p.numel(), p.requires_grad) for p in replica.parameters()]
    return 2 * sum(n for n, is_trained in numbers if is_trained) > sum(n for n, _ in numbers)

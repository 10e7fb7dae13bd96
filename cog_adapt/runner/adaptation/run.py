"""Adaptation: gradient steps on a private replica, one tick at a time. Model thread only.

`adapt` is a generator; each `next` is one tick: a part of an optimizer step or of a scoring batch.
All modes are off while the generator is suspended, and closing the generator drops the replica. A
step's randomness is drawn from (seed, step), so a run continues from a checkpoint bit for bit. This
module knows no thread and no caller.
"""

import math
import time
from collections.abc import Generator, Sequence
from concurrent.futures import Future, wait
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Self

import torch
from torch import Tensor

from cog_adapt.runner.adaptation.batches import batch_indices, split
from cog_adapt.runner.adaptation.compiling import compile_blocks
from cog_adapt.runner.adaptation.encoded import EncodedExamples
from cog_adapt.runner.adaptation.extra_examples import with_extra_examples
from cog_adapt.runner.adaptation.kept_outputs import recall
from cog_adapt.runner.adaptation.micro_batches import MicroBatches
from cog_adapt.runner.adaptation.report import AdaptationReport, HeldOut, Snapshot, Step
from cog_adapt.runner.adaptation.scoring import rated, score_draws
from cog_adapt.runner.adaptation.start import FACTOR, Start, adamw, weighted_loss
from cog_adapt.runner.adaptation.training_state import (
    TrainingState,
    copied_optimizer,
    restore_optimizer,
)
from cog_adapt.runner.adaptation.trunk import frozen_blocks, keep_trunk, relief_of, trunk_positions
from cog_adapt.runner.adaptation.weight_average import WeightAverage
from gradient_check.phases.checkpointing import recompute_blocks
from gradient_check.phases.determinism import is_repeatable
from gradient_check.phases.gradient_step import GradientStep, StepResult
from gradient_check.phases.randomness import derive_seed
from gradient_check.phases.replicas import (
    Tensors,
    modules_in_training,
    trained_state,
    training_replica,
)

_SAVING_SECONDS = 0.005  # the part of a tick that waits for the disk
_SCORINGS = 5  # held-out scorings spread over a run, besides the first one before any step

Adapting = Generator[Step | Snapshot | None, None, tuple[Tensors, AdaptationReport]]


def adapt(start: Start) -> Adapting:
    """Train; yield each step taken, and the snapshots that are asked (None after other ticks).

    Returns:
        The best tensors by held-out loss (the last if nothing was held out), and the report.

    Raises:
        AdaptationError: a loss or gradient was not finite, or memory ran out.
    """
    start = yield from with_extra_examples(start)
    run = _Run(start)
    yield from run.keep_trunk()
    yield from run.score_if_due()
    while run.stop_reason is None:
        yield from run.step()
        yield from run.score_if_due()
    yield from run.written()
    return run.result()


@dataclass
class _Best:
    step: int = 0
    loss: float = math.inf
    tensors: Tensors = field(default_factory=dict)

    @classmethod
    def of(cls, state: TrainingState | None) -> Self:
        """Return the best of an earlier run; without one, that of none."""
        if state is None:
            return cls()
        step, loss, tensors = state.best
        return cls(step, loss, tensors)


class _Run:
    """The state of one adaptation between its ticks."""

    def __init__(self, start: Start) -> None:
        self.start = start
        self.began = time.monotonic() if start.began is None else start.began
        recipe, resume = start.training.recipe, start.resumption.state
        count = len(start.data.examples)
        sent = start.data.examples[: count - start.data.extra]
        train, held_out = split(sent, recipe.hold_out, recipe.seed)
        self.train = [*train, *range(len(sent), count)]
        self.held_out = held_out
        self.examples = EncodedExamples(start)
        self.take_step = _gradient_step(self.start)
        self.average = (
            WeightAverage(self.take_step.replica, recipe.ema, resume.average if resume else None)
            if recipe.ema
            else None
        )
        self.batches = MicroBatches(start, self.examples, self.take_step)
        self.trunk = ""
        self.steps: list[Step] = list(resume.steps) if resume else []
        self.scores: list[HeldOut] = list(resume.scores) if resume else []
        self.earlier_steps = len(self.steps)
        self.earlier_seconds = resume.seconds if resume else 0.0
        self.best = _Best.of(resume)
        self.is_scored = bool(self.held_out)
        # the longest scoring so far; a time budget reserves this for the last scoring
        self.scoring_seconds = 0.0
        self.saving: Future[None] | None = None
        # concerns this call alone: a resumed run has its whole time budget again
        self.is_over_budget = False
        if resume:
            restore_optimizer(self.take_step, resume)
            start.training.limit.go_on(resume.steps)

    def keep_trunk(self) -> Generator[None, None, None]:
        """Run the part before the first trained block once, a batch of examples a tick."""
        pattern, replica = self.start.task.blocks, self.take_step.replica
        blocks = frozen_blocks(replica, pattern)
        chosen = (
            trunk_positions(self.start.training.recipe, self.train, self.held_out) if blocks else []
        )
        if chosen:
            spare = _gradient_step(self.start)
            kept = yield from keep_trunk(
                spare, examples=self.examples, chosen=chosen, pattern=pattern
            )
            self.trunk = kept.line
            if kept.outputs is not None:
                self.batches.relief = relief_of(replica, pattern)
                recall(blocks, kept.outputs)

    @property
    def seconds(self) -> float:
        return self.earlier_seconds + time.monotonic() - self.began

    @property
    def stop_reason(self) -> str | None:
        recipe = self.start.training.recipe
        if len(self.steps) >= recipe.max_steps:
            return "max_steps"
        if recipe.stop_after is not None and len(self.steps) >= recipe.stop_after:
            return "stop_after"
        return "budget_seconds" if self.is_over_budget else None

    def step(self) -> Generator[Step | Snapshot | None, None, None]:
        """Take one optimizer step on the next batch, unless the budget ends before it."""
        recipe, number = self.start.training.recipe, len(self.steps)
        size = min(recipe.batch_size, len(self.train))
        chosen = batch_indices(len(self.train), size=size, step=number, seed=recipe.seed)
        rate = self.start.training.learning_rate * (1 - number / recipe.max_steps)
        for group in self.take_step.optimizer.param_groups:
            group["lr"] = rate * group[FACTOR]
        positions = [self.train[i] for i in chosen for _ in range(recipe.repeats)]
        seed = derive_seed(recipe.seed, "step", number)
        result = yield from self.batches.step(positions, seed, self._may_give_up)
        if result is not None:
            self.steps.append(self._step(result, rate))
            if self.average is not None:
                self.average.note(len(self.steps))
        self._note_budget()
        is_due = result is not None and len(self.steps) % self.start.resumption.every == 0
        yield from self._keep(is_due, self.stop_reason == "budget_seconds")
        if result is not None:
            yield self.steps[-1]
        if result is not None and self._is_preview_due:
            yield self._snapshot()

    def _keep(self, is_due: bool, is_last: bool) -> Generator[None, None, None]:
        """Have the state written beside the next steps; the last write is waited for.

        While one write is running, a state that is merely due is skipped: a disk may be slow.
        """
        if self.start.resumption.keep is None or not (is_due or is_last):
            return
        if self.saving is not None and not self.saving.done() and not is_last:
            return
        yield from self.written()
        state = yield from _state_of(self)
        self.saving = self.start.resumption.keep(state)

    def written(self) -> Generator[None, None, None]:
        """Wait until no state is being written, a moment a tick.

        Raises:
            StoreError: the state could not be written.
        """
        while self.saving is not None:
            wait([self.saving], _SAVING_SECONDS)
            if self.saving.done():
                saved, self.saving = self.saving, None
                saved.result()
            else:
                yield None

    def _step(self, result: StepResult, rate: float) -> Step:
        limit = self.start.training.limit
        return Step(
            number=len(self.steps) + 1,
            of=self.start.training.recipe.max_steps,
            loss=result.loss,
            gradient_norm=result.gradient_norm,
            learning_rate=rate,
            seconds=self.seconds,
            skipped=result.skipped,
            halved_to=limit.halved_to if limit.halved_at == limit.steps else 0,
        )

    def _may_give_up(self) -> bool:
        """Return whether a step may be given up: the budget is over, and this call took a step."""
        self._note_budget()
        return self.is_over_budget and len(self.steps) > self.earlier_steps

    def _note_budget(self) -> None:
        budget = self.start.training.recipe.budget_seconds
        spent = time.monotonic() - self.began + self.scoring_seconds
        self.is_over_budget = budget is not None and spent >= budget

    @property
    def _is_half_over(self) -> bool:
        """Return whether the rest of the budget is too short for a second scoring."""
        budget = self.start.training.recipe.budget_seconds
        return budget is not None and time.monotonic() - self.began >= budget / 2

    def score_if_due(self) -> Generator[None, None, None]:
        """Score the held-out examples at the start, at even distances and at the end.

        If the first scoring takes half of the budget, there is no second: steps are worth more.
        """
        number, recipe = len(self.steps), self.start.training.recipe
        every = max(1, -(-recipe.max_steps // _SCORINGS))
        due = number % every == 0 or self.stop_reason is not None
        if not self.is_scored or not due or any(s.step == number for s in self.scores):
            return
        began = time.monotonic()
        totals, draws = torch.zeros(2, dtype=torch.float64), score_draws(self.start.task)
        size = max(1, recipe.batch_size // draws)
        for first in range(0, len(self.held_out), size):
            if first and not self.scores and self._is_half_over:
                self.is_scored = False
                return
            batch = [row for row in self.held_out[first : first + size] for _ in range(draws)]
            done: list[int] = []
            for group in (yield from self.batches.groups(batch)):
                totals += self._score(group, done)
                done += group
                yield None
        self.scoring_seconds = max(self.scoring_seconds, time.monotonic() - began)
        weights = self.start.data.weights or [1.0] * len(self.start.data.examples)
        whole = sum(weights[i] for i in self.held_out) or 1.0
        loss, score = (totals / (whole * draws)).tolist()
        self.scores.append(HeldOut(number, loss, score))
        if loss < self.best.loss:
            self.best = _Best(number, loss, self._trained())

    @property
    def _is_preview_due(self) -> bool:
        """Whether the last step is one of those at even distances, the end left out."""
        recipe, number = self.start.training.recipe, len(self.steps)
        parts = recipe.previews + 1
        passed, before = (parts * n // recipe.max_steps for n in (number, number - 1))
        return bool(recipe.previews) and passed > before and self.stop_reason is None

    def _snapshot(self) -> Snapshot:
        """Return the model as it is now."""
        recipe = self.start.training.recipe
        return Snapshot(
            tensors={name: tensor.cpu() for name, tensor in self._trained().items()},
            labels=tuple(self.start.data.labels),
            method=recipe.method,
            step=len(self.steps),
            of=recipe.max_steps,
            scales=self.start.trained.scales,
        )

    def result(self) -> tuple[Tensors, AdaptationReport]:
        """Return the best tensors and the report."""
        is_chosen = self.is_scored or bool(self.scores)
        tensors = self.best.tensors if is_chosen else self._trained()
        best_step = self.best.step if is_chosen else len(self.steps)
        recipe = self.start.training.recipe
        report = AdaptationReport(
            method=recipe.method,
            trained_parameters=sum(t.numel() for t in tensors.values()),
            learning_rate=self.start.training.learning_rate,
            seed=recipe.seed,
            precision=str(self.start.training.precision),
            examples=len(self.train) - self.start.data.extra,
            held_out_examples=len(self.held_out),
            steps=tuple(self.steps),
            scores=tuple(self.scores),
            best_step=best_step,
            stop_reason=self.stop_reason or "max_steps",
            seconds=self.seconds,
            trunk=self.trunk,
            halved_at=self.start.training.limit.halved_at,
            bit_for_bit=is_repeatable(self.start.training.precision.device),
        )
        return {name: tensor.cpu() for name, tensor in tensors.items()}, report

    def _score(self, chosen: Sequence[int], earlier: Sequence[int]) -> Tensor:
        rows = self.examples.rows(chosen)._replace(earlier=tuple(earlier))
        with nullcontext() if self.average is None else self.average.applied():
            values = rated(self.start, self.take_step.replica, rows)
        each = 1.0 if rows.weights is None else rows.weights.double()
        return (values * each).sum(1).cpu()

    def _trained(self) -> Tensors:
        """Return what the run would give now: the averages where there are any."""
        averages = {} if self.average is None else self.average.tensors()
        return trained_state(self.take_step.replica, self.start.trained.template) | averages


def _state_of(run: _Run) -> Generator[None, None, TrainingState]:
    optimizer = yield from copied_optimizer(run.take_step)
    replica, cpu = run.take_step.replica, torch.device("cpu")
    return TrainingState(
        tensors=trained_state(replica, run.start.trained.template, cpu),
        optimizer=optimizer,
        best=(run.best.step, run.best.loss, run.best.tensors),
        steps=tuple(run.steps),
        scores=tuple(run.scores),
        seconds=run.seconds,
        average={} if run.average is None else run.average.tensors(cpu),
    )


def _gradient_step(start: Start) -> GradientStep:
    """Make a step on a replica of its own, with the tensors that a run begins with."""
    tensors = start.resumption.state.tensors if start.resumption.state else start.trained.tensors
    moved = {n: t.to(start.training.precision.device) for n, t in tensors.items()}
    replica = training_replica(start.trained.template, moved, start.trained.scales)
    training = modules_in_training(replica)
    if start.training.compiles:
        compile_blocks(replica)
    if start.training.recipe.checkpointing:
        recompute_blocks(replica)
    loss, optimizer = (
        weighted_loss(start.task),
        adamw(
            start.training.recipe,
            start.training.learning_rate,
            replica=replica,
            rates=start.task.rates,
        ),
    )
    clip_norm = start.training.recipe.clip_norm
    return GradientStep(
        replica=replica,
        loss=loss,
        make_optimizer=optimizer,
        precision=start.training.precision,
        training=training,
        clip_norm=clip_norm,
    )

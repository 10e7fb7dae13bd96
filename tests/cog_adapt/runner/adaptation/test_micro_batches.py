"""Steps in parts have the gradients of whole ones; a lack of memory makes parts smaller once."""

import copy
import dataclasses
import gc
import itertools
import logging
import threading
import time
import weakref
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from cog_adapt.runner.adaptation import micro_batches
from cog_adapt.runner.adaptation.encoded import EncodedExamples
from cog_adapt.runner.adaptation.micro_batches import MicroBatches, rows_are_independent
from cog_adapt.runner.adaptation.report import Step
from cog_adapt.runner.adaptation.run import adapt
from cog_adapt.runner.adaptation.start import Checkpoints, adamw, weighted_loss
from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.errors import AdaptationError
from cog_adapt.runner.inference.label_tensors import finished
from cog_adapt.runner.model.loaded_model import LoadedModel
from cog_adapt.runner.scheduling.scheduler import Scheduler, once
from gradient_check.phases.gradient_step import GradientStep
from gradient_check.phases.precision import Precision
from gradient_check.phases.replicas import training_replica
from gradient_check.tests.models import LABELS
from gradient_check.tests.states import thread_modes
from tests.cog_adapt.devices import DEVICE, PLACE
from tests.cog_adapt.models import Images, Spectral, examples
from tests.cog_adapt.runner.featured import FEW_STEPS, Featured, separated
from tests.cog_adapt.runner.ticks import drained, to_first_step
from tests.cog_adapt.texts import Texts

TOKENS = 24
RECIPE = Recipe("all", max_steps=6, batch_size=8, seed=3, learning_rate=0.02)
ROUNDING = 2.0**-24


def texts(count=18):
    return [Example("abcdefghijklmnop"[: 2 + n * 5 % 13], LABELS[n % 3]) for n in range(count)]


CPU = Precision(torch.device("cpu"))


class Watched(Texts):
    """Texts in parts of 24 tokens; it keeps the shape of each batch that trained."""

    part_tokens = TOKENS

    def __init__(self, padding_side="right"):
        super().__init__(padding_side)
        self.seen: list[Any] = []

    def spoiled(self, losses):
        if torch.is_grad_enabled():
            self.seen.append(len(losses))
        return super().spoiled(losses)


class Whole(Watched):
    """The same in one part."""

    part_tokens = 10**6


def loaded(task, **settings):
    return LoadedModel(task, RunnerSettings(**{"device": DEVICE, "precision": "fp32", **settings}))


def ran(model, rows=None, recipe=RECIPE, fault=None):
    """Adapt, with a fault from the first step on; what came before it is forgotten."""
    ticks = to_first_step(model.adapting(rows or texts(), recipe))
    getattr(model.task, "seen", []).clear()
    model.task.fault = fault
    return drained(ticks)


def adapted(task, recipe=RECIPE, rows=None):
    return ran(loaded(task), rows, recipe)[1]


def losses(done):
    return [step.loss for step in done.report.steps]


def step_without_dropout(start):
    replica = training_replica(start.trained.template, start.trained.tensors)
    return GradientStep(
        replica,
        weighted_loss(start.task),
        adamw(start.training.recipe, 0.02),
        start.training.precision,
        frozenset(),
    )


def gradients_of(start, groups):
    """The gradients that a step has, taken before its update, and its loss."""
    step = step_without_dropout(start)
    parts = EncodedExamples(start).parts(groups)
    taken: list[Any] = []
    step.optimizer.register_step_pre_hook(
        lambda *_: taken.append({n: p.grad.clone() for n, p in step.replica.named_parameters()})
    )
    seen, result = drained(step.ticks(parts, 0))
    assert seen == [None] * (len(groups) - 1)
    return taken[0], result.loss


@pytest.mark.parametrize("weights", [None, [0.25 * (1 + n % 4) for n in range(18)]])
@pytest.mark.parametrize("side", ["right", "left"])
def test_gradients_in_parts_are_those_of_the_whole_batch(side, weights):
    """Each is a sum over the tokens, in another order: as many roundings at most."""
    start = loaded(Watched(side)).start(texts(), RECIPE)
    start = dataclasses.replace(start, data=dataclasses.replace(start.data, weights=weights))
    chosen = [*range(12)]
    groups = EncodedExamples(start).groups(chosen)
    assert len(groups) > 3
    parts, loss = gradients_of(start, groups)
    whole, whole_loss = gradients_of(start, [chosen])
    tokens = sum(len(start.data.examples[i].input) for i in chosen)
    assert loss == pytest.approx(whole_loss, rel=tokens * ROUNDING)
    largest = max(float(gradient.abs().max()) for gradient in whole.values())
    for name, gradient in parts.items():
        far = float((gradient - whole[name]).abs().max())
        assert far <= tokens * ROUNDING * largest, name


# On a GPU the lengths of the examples are compared before the first step.
LENGTH_TICKS = 0 if DEVICE == "cpu" else 3


def test_a_batch_under_the_limit_is_one_part_and_one_tick():
    whole = Whole()
    seen, _ = ran(loaded(whole))
    assert [type(each) for each in seen[LENGTH_TICKS:]] == [Step] * 6
    assert seen[:LENGTH_TICKS] == [None] * LENGTH_TICKS
    assert whole.seen == [8] * 6


def test_a_part_is_a_tick_of_at_most_the_tokens():
    watched = Watched()
    seen, done = ran(loaded(watched))
    assert [each for each in seen if each] == [*done.report.steps]
    assert sum(watched.seen) == 6 * 8
    assert len(watched.seen) > 6 * 3
    ticks_of_a_look = 5  # four examples together, and each alone
    assert len(seen) == len(watched.seen) + ticks_of_a_look + LENGTH_TICKS


def test_each_part_draws_its_own_random_numbers_and_repeats_them():
    class Drawing(Watched):
        drawn: list[float] = []

        def loss(self, module, batch, targets):
            if torch.is_grad_enabled():
                self.drawn.append(torch.rand(1).item())
            return super().loss(module, batch, targets)

    one = adapted(Drawing())
    drawn = [*Drawing.drawn]
    assert len(set(drawn)) == len(drawn)
    assert adapted(Drawing()).adapter.id == one.adapter.id
    assert Drawing.drawn == drawn * 2


def test_held_out_batches_are_cut_too():
    sizes: list[int] = []

    class Scored(Watched):
        def score(self, module, batch, targets):
            sizes.append(batch["attention_mask"].numel())
            return super().score(module, batch, targets)

    done = adapted(Scored(), dataclasses.replace(RECIPE, max_steps=1, hold_out=0.5))
    assert done.report.held_out_examples == 9
    assert len(sizes) > 2 * 2
    assert max(sizes) <= (TOKENS if DEVICE == "cpu" else 4 * TOKENS)  # lengths of 16 there


def test_parts_train_as_whole_batches_do():
    recipe = dataclasses.replace(RECIPE, max_steps=40)
    parts, whole = losses(adapted(Watched(), recipe)), losses(adapted(Whole(), recipe))
    assert parts[-1] < 0.7 * parts[0]
    assert parts[-1] == pytest.approx(whole[-1], rel=0.3)  # dropout draws differ


@pytest.mark.parametrize("side", ["right", "left"])
def test_kept_outputs_are_found_by_the_rows_of_a_part(side):
    recipe = Recipe("head", max_steps=6, batch_size=8, seed=3, learning_rate=0.02, hold_out=0.3)
    small = Watched(side)
    small.part_tokens = 8
    parts, whole = adapted(small, recipe), adapted(Whole(side), recipe)
    assert 6 * 8 > len(small.seen) > 12  # 32 tokens a part, since no block runs
    assert parts.report.trunk == "3 frozen blocks ran once for each example"
    assert losses(parts) == pytest.approx(losses(whole), rel=1e-5)
    for one, other in zip(parts.report.scores, whole.report.scores, strict=True):
        assert (one.loss, one.score) == pytest.approx((other.loss, other.score), rel=1e-5)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_run_resumed_from_any_kept_state_ends_in_the_same_bits(precision):
    model = loaded(Watched(), precision=precision)
    recipe = dataclasses.replace(RECIPE, hold_out=0.3)
    states: list[Any] = []
    keeping = Checkpoints(load=lambda: None, save=states.append, every=1)
    whole = drained(model.adapting(texts(), recipe, checkpoints=keeping))[1]
    assert len(model.task.seen) > 6 * 2
    for state in states:
        resumed = Checkpoints(load=partial(copy.copy, state), save=lambda _: None, every=1)
        done = drained(model.adapting(texts(), recipe, checkpoints=resumed))[1]
        assert done.adapter.id == whole.adapter.id
        assert losses(done) == losses(whole)


def test_a_step_that_float16_voids_is_repeated_as_a_whole():
    start = loaded(Watched(), precision="fp16").start(texts(), RECIPE)
    step = step_without_dropout(start)
    step.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**30)
    groups = EncodedExamples(start).groups([*range(8)])
    seen, result = drained(step.ticks(EncodedExamples(start).parts(groups), 0))
    assert result.skipped > 0
    assert len(seen) == len(groups) * (1 + result.skipped) - 1
    assert {state["step"].item() for state in step.optimizer.state.values()} == {1.0}
    plain = step_without_dropout(start)
    plain.scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** (30 - result.skipped))
    once_only = drained(plain.ticks(EncodedExamples(start).parts(groups), 0))[1]
    assert (result.loss, result.gradient_norm) == (once_only.loss, once_only.gradient_norm)


# Between two parts


def between_two_parts(start):
    """An adaptation that has added up a part of its first step, and its replica."""
    ticks: Any = adapt(start)
    step = None
    while step is None or all(p.grad is None for p in step.trained):
        next(ticks)
        step = ticks.gi_frame.f_locals["run"].take_step
    return ticks, step


def test_no_mode_is_on_between_two_parts():
    before = thread_modes()
    ticks, _ = between_two_parts(loaded(Watched()).start(texts(), RECIPE))
    assert thread_modes() == before
    ticks.close()


def test_closing_between_two_parts_leaves_no_gradient_and_no_replica():
    ticks, step = between_two_parts(loaded(Watched()).start(texts(), RECIPE))
    ticks.close()
    assert all(parameter.grad is None for parameter in step.trained)
    replica = weakref.ref(step.replica)
    del ticks, step
    gc.collect()
    assert replica() is None


def test_a_budget_that_ends_between_two_parts_ends_with_the_step_before(monkeypatch):
    clock = itertools.count()
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    watched = Watched()
    done = adapted(watched, dataclasses.replace(RECIPE, max_steps=50, budget_seconds=26.0))
    monkeypatch.undo()
    taken = len(done.report.steps)
    assert done.report.stop_reason == "budget_seconds"
    assert 1 <= taken < 10
    assert sum(watched.seen) % 8  # some parts of the next step were added up
    again = adapted(Watched(), dataclasses.replace(RECIPE, max_steps=50, stop_after=taken))
    assert again.adapter.id == done.adapter.id


def test_an_update_that_has_begun_is_finished_though_the_budget_is_over():
    start = loaded(Whole()).start(texts(), RECIPE)
    wide = nn.Sequential(nn.Linear(4, 2_000), nn.Linear(2_000, 2_000), nn.Linear(2_000, 1_000))
    before = copy.deepcopy(wide.state_dict())
    make = adamw(RECIPE, 0.1)
    step = GradientStep(wide, lambda module, rows: module(torch.ones(2, 4)), make, CPU, frozenset())
    work = MicroBatches(start, EncodedExamples(start), step).step([0, 1], 0, lambda: True)
    assert finished(work) is not None
    assert all(not torch.equal(before[name], now) for name, now in wide.state_dict().items())


def test_the_smallest_budget_takes_a_step_in_parts():
    done = adapted(Watched(), dataclasses.replace(RECIPE, budget_seconds=0.001))
    assert (len(done.report.steps), done.report.stop_reason) == (1, "budget_seconds")


def test_a_prediction_runs_between_two_parts_of_one_step():
    record: list[str] = []
    began, arrived = threading.Event(), threading.Event()

    class Recorded(Watched):
        def spoiled(self, losses):
            if losses.requires_grad:
                record.append("part")
                began.set()
                arrived.wait(30)
            return losses

    scheduler = Scheduler()
    try:
        model = scheduler.submit_long(once(loaded, Recorded())).wait()
        recipe = dataclasses.replace(RECIPE, max_steps=1)
        start = scheduler.submit_long(once(model.start, texts(), recipe)).wait()
        ticket = scheduler.submit_long(adapt(start))
        assert began.wait(30)
        short = scheduler.submit_short(once(record.append, "prediction"))
        arrived.set()
        short.wait()
        ticket.wait()
    finally:
        scheduler.close()
    assert record[:3] == ["part", "prediction", "part"]
    assert record.count("part") > 3


# What is not cut


class OneBatch(nn.Module):
    """A head behind a BatchNorm that has no running statistics."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.norm = nn.BatchNorm1d(8, track_running_stats=False)
        self.head = nn.Linear(8, len(LABELS))

    def forward(self, x):
        return self.head(self.norm(self.fc(x)))


class InBatch(Images):
    """Rows of 8 numbers, each as much as a token: three a part."""

    part_tokens = 3
    seen: list[int]

    def __init__(self):
        self.seen = []

    def spoiled(self, losses):
        if torch.is_grad_enabled():
            self.seen.append(len(losses))
        return super().spoiled(losses)


class Normed(InBatch):
    def module(self):
        return OneBatch()


class Spectral3(InBatch):
    def module(self):
        return Spectral().module()


class Contrastive(InBatch):
    def loss(self, module, batch, targets):
        logits = module(**batch)
        near = F.normalize(logits, dim=1) @ F.normalize(logits, dim=1).T
        return self.spoiled(
            F.cross_entropy(near, torch.arange(len(near), device=near.device), reduction="none")
        )


class Pairs(InBatch):
    def loss(self, module, batch, targets):
        if len(targets) < 2:
            raise ValueError("a pair is needed")
        return super().loss(module, batch, targets)


class Declared(InBatch):
    rows_are_independent = False


@pytest.mark.parametrize("kind", [Normed, Spectral3, Contrastive, Pairs, Declared])
def test_a_batch_whose_rows_depend_on_each_other_is_not_cut(kind):
    task = kind()
    adapted(task, dataclasses.replace(RECIPE, max_steps=2, hold_out=0.4), examples("images", 18))
    assert task.seen == [8, 8]


def test_rows_of_numbers_are_cut_too():
    task = InBatch()
    adapted(task, dataclasses.replace(RECIPE, max_steps=2), examples("images", 18))
    assert task.seen == [3, 3, 2] * 2


def test_a_task_is_looked_at_with_a_few_examples_spread_over_all():
    for kind, expected in ((InBatch, True), (Contrastive, False), (Pairs, False)):
        task = kind()
        start = loaded(task).start(examples("images", 18), RECIPE)
        assert finished(rows_are_independent(start)) is expected
        assert task.seen == []


@pytest.mark.parametrize(("tokens", "together"), [(TOKENS, 4), (1, 2)])
def test_of_examples_that_are_a_part_each_two_are_compared(tokens, together):
    seen = []

    class Looked(Texts):
        part_tokens = tokens

        def spoiled(self, losses):
            seen.append(len(losses))
            return super().spoiled(losses)

    start = loaded(Looked()).start(texts(), RECIPE)
    seen.clear()
    assert finished(rows_are_independent(start))
    assert seen == [together, *[1] * together]


# Memory


def running_out_above(rows):
    def fault(losses):
        if len(losses) > rows:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        return losses

    return fault


@pytest.mark.parametrize(("kind", "most"), [(InBatch, 2), (Whole, 7)])
def test_running_out_of_memory_halves_the_parts_once(kind, most, caplog, monkeypatch):
    freed: list[torch.device] = []
    monkeypatch.setattr(micro_batches, "free_cache", freed.append)
    rows = texts() if kind is not InBatch else examples("images", 18)
    plain = adapted(kind(), RECIPE, rows)
    assert plain.report.halved_at is None
    assert "halved_at" not in plain.report.to_json()
    task = kind()
    model = loaded(task)
    with caplog.at_level(logging.WARNING):
        done = ran(model, rows, fault=running_out_above(most))[1]
    assert freed == [torch.device(PLACE)]
    assert done.report.halved_at == 1
    assert done.report.to_json()["halved_at"] == 1
    assert [r.message for r in caplog.records if "memory ran out in step 1" in r.message]
    assert len(done.report.steps) == 6
    assert losses(done)[0] == pytest.approx(losses(plain)[0], rel=0.2)  # dropout draws differ


def test_only_the_step_in_which_memory_ran_out_is_taken_again():
    """The step before is kept, those after it are cut at once, and a replay gives the same bits."""
    task = Whole()
    model = loaded(task)
    at_step_3 = iter([False, False, True])

    def fault(losses):
        if len(losses) == 8 and next(at_step_3):
            raise MemoryError
        return losses

    done = ran(model, fault=fault)[1]
    assert done.report.halved_at == 3
    assert [bool(step.halved_to) for step in done.report.steps] == [False] * 2 + [True] + [
        False
    ] * 3
    assert task.seen[:3] == [8, 8, 8]
    assert max(task.seen[3:]) < 8
    again = adapted(Whole(), dataclasses.replace(RECIPE, halve_at=3))
    assert again.adapter.id == done.adapter.id
    assert losses(again) == losses(done)
    assert again.report.halved_at == 3
    assert adapted(Whole()).adapter.id != done.adapter.id


def test_a_run_that_goes_on_after_memory_ran_out_ends_in_the_same_bits():
    recipe = dataclasses.replace(RECIPE, halve_at=3)
    model = loaded(Whole())
    states: list[Any] = []
    keeping = Checkpoints(load=lambda: None, save=states.append, every=1)
    whole = drained(model.adapting(texts(), recipe, checkpoints=keeping))[1]
    for state in states[2:]:
        resumed = Checkpoints(load=partial(copy.copy, state), save=lambda _: None, every=1)
        done = drained(model.adapting(texts(), RECIPE, checkpoints=resumed))[1]
        assert done.adapter.id == whole.adapter.id
        assert done.report.halved_at == 3


def test_running_out_twice_fails_with_a_remedy():
    task = Whole()
    model = loaded(task)
    with pytest.raises(AdaptationError, match="memory ran out .*smaller batch_size or rank"):
        ran(model, fault=running_out_above(0))
    assert len(task.seen) == 2
    assert ran(model)[1].report.halved_at is None


def test_running_out_while_memory_is_measured_fails_with_the_same_remedy():
    model = loaded(Whole())
    model.task.fault = running_out_above(0)
    with pytest.raises(AdaptationError, match="memory ran out .*smaller batch_size or rank"):
        drained(model.adapting(texts(), RECIPE))


def test_running_out_in_a_later_step_fails_too():
    task = Whole()
    model = loaded(task)

    def fault(losses):
        if len(losses) == 8 or len(task.seen) == 12:
            raise MemoryError
        return losses

    with pytest.raises(AdaptationError, match="memory ran out"):
        ran(model, fault=fault)


@pytest.mark.parametrize("kind", [Contrastive, Declared])
def test_what_is_not_cut_fails_at_once(kind):
    task = kind()
    model = loaded(task)
    with pytest.raises(AdaptationError, match="memory ran out"):
        ran(model, examples("images", 18), fault=running_out_above(4))
    assert task.seen == [8]


def test_what_a_fold_of_auto_halved_is_said_whatever_answers_best():
    """The closed form's own report knows no step."""
    recipe = dataclasses.replace(FEW_STEPS, halve_at=2)
    done = drained(loaded(Featured()).adapting(separated(36), recipe))[1]
    assert done.report.method == "head"
    assert done.report.halved_at == 2


def test_automatic_adaptations_count_the_steps_of_all_their_runs():
    start = loaded(Whole()).start(texts(), dataclasses.replace(RECIPE, halve_at=8))
    drained(adapt(start))
    _, (_, report) = drained(adapt(dataclasses.replace(start)))
    assert report.halved_at == 8
    assert [bool(step.halved_to) for step in report.steps] == [False, True] + [False] * 4


class Usual(Watched):
    """Texts in parts of the usual size."""

    part_tokens = 0


def test_a_part_has_fewer_tokens_where_most_weights_are_trained():
    """A backward for all weights takes longer than one for a few."""
    most = {}
    rows = [Example("abcdefghijklmnop", LABELS[n % 3]) for n in range(32)]
    for method in ("match:head.*", "all"):
        task = Usual()
        recipe = dataclasses.replace(RECIPE, method=method, batch_size=32, max_steps=1)
        ran(loaded(task, device="cpu"), rows, recipe)
        most[method] = max(task.seen)
    assert most["all"] < most["match:head.*"]

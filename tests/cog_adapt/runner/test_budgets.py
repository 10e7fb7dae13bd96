"""`budget_seconds` holds from the first work for a request; the best so far is returned.

No time passes here: a clock goes on by one with each batch that is computed.
"""

import time
from dataclasses import replace

import pytest
import torch

from cog_adapt.runner.auto import run as auto
from cog_adapt.runner.auto.head import features_of
from cog_adapt.runner.config import AUTO, HEAD, Recipe
from cog_adapt.runner.errors import InputError
from cog_adapt.runner.heads.decision import BASE, CLOSED
from cog_adapt.runner.inference.label_tensors import finished
from cog_adapt.runner.model_runner import ModelRunner
from cog_adapt.runner.requests.replay import replay
from cog_adapt.runner.requests.run_facts import data_digest
from gradient_check.tests.models import LABELS
from gradient_check.tests.present import present
from tests.cog_adapt.models import Images
from tests.cog_adapt.models import examples as examples_of
from tests.cog_adapt.runner.featured import (
    FEW_STEPS,
    Featured,
    Measured,
    Unnamed,
    drained,
    given,
    loaded,
    separated,
)

SORTED = sorted(separated(600), key=lambda example: example.target)


class Clock:
    """Goes on when it is told to."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock)
    return clock


def slow(kind, clock):
    """A task each batch of whose features takes a second."""

    task = kind()
    computed = task.features

    def features(module, batch):
        clock.now += 1.0
        return computed(module, batch)

    vars(task)["features"] = features
    return loaded(task)


@pytest.mark.parametrize("kind", [Featured, Unnamed])
@pytest.mark.parametrize("method", [AUTO, HEAD])
def test_a_budget_ends_features_and_a_head_is_fitted_to_some_examples_of_each_label(
    clock, kind, method
):
    model = slow(kind, clock)
    recipe = replace(FEW_STEPS, method=method, budget_seconds=3.0, learning_rate=None)
    began = clock.now
    _, done = drained(model.adapting(SORTED, recipe))
    assert clock.now - began == 3.0
    assert (done.report.stop_reason, done.report.steps) == ("budget_seconds", ())
    assert done.report.examples == 96
    assert done.report.decision.chosen == CLOSED
    assert done.report.decision.why.startswith("the time was over when 96 of 600 examples were")
    assert set(done.adapter.labels) == set(LABELS)
    assert present(done.report.score_after) > 0.9


def test_numbers_are_learned_from_those_that_come_first(clock):
    model = slow(Measured, clock)
    rows = examples_of("regression", 200)
    _, done = drained(model.adapting(rows, Recipe(AUTO, budget_seconds=2.0)))
    assert (done.report.stop_reason, done.report.examples) == ("budget_seconds", 64)


def test_the_smallest_budget_still_sees_a_batch(clock):
    _, done = drained(slow(Featured, clock).adapting(SORTED, Recipe(AUTO, budget_seconds=0.001)))
    assert done.report.examples == 32


class Kept:
    """Keeps rows by what they are of."""

    def __init__(self):
        self.rows, self.found = {}, 0

    def get(self, inputs):
        return [self.rows.get(tuple(each)) for each in inputs]

    def put(self, inputs, rows):
        self.rows.update({tuple(each): row for each, row in zip(inputs, rows, strict=True)})


def test_asked_again_it_goes_on_from_the_features_that_there_are():
    model, kept, passes = loaded(Featured()), Kept(), []
    inputs = [example.input for example in SORTED[:100]]
    phase = model.predictions.phase
    whole = present(finished(features_of(phase, model.base.module, inputs, 32)))
    for _ in range(3):
        over = lambda: True  # noqa: E731 - reads as the argument that it is
        found = present(finished(features_of(phase, model.base.module, inputs, 32, kept, over)))
        assert torch.equal(found, whole[: len(found)])
        passes.append(len(found))
    assert passes == [32, 64, 96]


def test_a_budget_ends_the_answers_to_folds(monkeypatch):
    model = loaded(Featured())
    found = given(model, separated(30), replace(FEW_STEPS, budget_seconds=1000.0), time.monotonic())
    ended = []

    def endless(given, wrong_share):
        try:
            for number in range(1_000):
                if number == 3:
                    object.__setattr__(given, "began", -1e9)
                yield None
        finally:
            ended.append(number)

    monkeypatch.setattr(auto, "cross_answers", endless)
    _, outcome = drained(auto.adapt_automatically(found))
    assert ended == [3]
    assert outcome.report.stop_reason == "budget_seconds"
    assert outcome.report.decision.chosen in (BASE, CLOSED)


def scored(monkeypatch, clock, rows_of_scoring, budget, seconds):
    """Adapt, where a batch of scoring and a step take some seconds."""
    model = loaded(Images())
    score, loss = model.task.score, model.task.loss

    def slow_score(*given):
        clock.now += seconds
        return score(*given)

    def slow_loss(*given):
        clock.now += torch.is_grad_enabled()
        return loss(*given)

    monkeypatch.setattr(model.task, "score", slow_score)
    monkeypatch.setattr(model.task, "loss", slow_loss)
    count = 2 * rows_of_scoring
    recipe = Recipe("head", max_steps=1000, batch_size=8, hold_out=0.5, budget_seconds=budget)
    began = clock.now
    _, done = drained(model.adapting(examples_of("images", count), recipe))
    return done, clock.now - began


def test_a_budget_leaves_time_for_the_last_scoring(monkeypatch, clock):
    done, seconds = scored(monkeypatch, clock, 32, 30.0, 2.0)
    assert seconds <= 30.0
    assert len(done.report.steps) == 13  # and a forward that measures what memory they need
    assert [score.step for score in done.report.scores] == [0, 13]


def test_a_scoring_that_takes_half_of_the_budget_is_left(monkeypatch, clock):
    done, seconds = scored(monkeypatch, clock, 200, 20.0, 1.0)
    assert seconds <= 20.0
    assert (len(done.report.steps), done.report.scores) == (10, ())
    assert done.report.best_step == 10
    assert done.adapter.tensors


def test_what_a_task_without_features_was_asked_for_that_counts_too(clock):
    class Late(Images):
        def features(self, module, batch):
            clock.now += 50.0

    model = loaded(Late())
    recipe = Recipe(AUTO, max_steps=50, budget_seconds=20.0)
    _, done = drained(model.adapting(examples_of("images", 12), recipe))
    assert (done.report.stop_reason, len(done.report.steps)) == ("budget_seconds", 1)


def test_labels_that_are_prepared_count_too(clock):
    class Late(Featured):
        def start(self, module, labels, examples):
            clock.now += 50.0
            return super().start(module, labels, examples)

    recipe = Recipe("lora", max_steps=50, budget_seconds=20.0)
    _, done = drained(loaded(Late()).adapting(separated(12), recipe))
    assert (done.report.stop_reason, len(done.report.steps)) == ("budget_seconds", 1)


def test_a_wait_for_memory_does_not_count(clock):
    work = slow(Featured, clock).adapting(SORTED, replace(FEW_STEPS, budget_seconds=3.0))
    next(each for each in work if each is not None)  # what it needs
    clock.now += 1_000.0
    _, done = drained(work)
    assert done.report.examples == 96


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"examples": 96}, "saw 96 of them"),
        ({"held_out_examples": 30, "held_out_curve": []}, "scored none of the held-out ones"),
    ],
)
def test_what_a_budget_kept_from_being_seen_is_not_replayed(make_runner, changes, said):
    runner: ModelRunner = make_runner(Featured())
    report = {"examples": 90, "held_out_examples": 0, "held_out_curve": []}
    receipt = {
        "examples": {"digest": None, "count": 120},
        "base": {"before": runner.base},
        "started_from": None,
        "recipe": {},
        "report": report | changes,
    }
    receipt["examples"]["digest"] = data_digest(SORTED[:120])
    with pytest.raises(InputError, match=said):
        replay(runner, receipt, SORTED[:120])

"""What `auto` was cut short in goes on and is replayed; kept features change no exact bit."""

import json
import time
from dataclasses import replace

import pytest
import torch

from cog_adapt.runner.adaptation.report import Step
from cog_adapt.runner.adaptation.run import adapt
from cog_adapt.runner.auto import run as auto
from cog_adapt.runner.auto.start import AutoStart
from cog_adapt.runner.config import AUTO, Recipe
from cog_adapt.runner.heads.decision import BASE, GRADIENTS, decide
from cog_adapt.runner.known.adaptation_key import input_digests
from cog_adapt.runner.known.receipt import read_receipt
from cog_adapt.runner.requests.replay import replay
from tests.cog_adapt.runner.asking import Asker
from tests.cog_adapt.runner.featured import FEW_STEPS, Featured, separated

STEPS, CUT_AT = FEW_STEPS.max_steps, 2  # fewer than a fold takes
HOUR = 3600.0
CUT = Recipe(AUTO, max_steps=STEPS, batch_size=8, learning_rate=0.01, budget_seconds=HOUR)
ROWS = separated(30)


@pytest.fixture
def runner(make_runner):
    return make_runner(Featured(), device="cpu")


@pytest.fixture
def elsewhere(make_runner, tmp_path):
    return make_runner(Featured(), device="cpu", weights_dir=tmp_path / "elsewhere")


@pytest.fixture
def gradients_win(monkeypatch):
    choose(monkeypatch, GRADIENTS)


def choose(monkeypatch, name):
    """Let the folds' answers choose this, where it is there."""

    def chosen(candidates, measure, *count):
        found = decide(candidates, measure, *count)
        return replace(found, chosen=name) if name in candidates else found

    monkeypatch.setattr(auto, "decide", chosen)


@pytest.fixture
def cut_in_the_last_run(monkeypatch, gradients_win):
    """Let a budget end in the steps on all examples, which it gives; folds take half as many."""
    taken: list[int] = []
    ahead, monotonic = [0.0], time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + ahead[0])

    def noted(start):
        ticks, is_last = adapt(start), start.training.recipe.max_steps == STEPS
        while True:
            try:
                progress = next(ticks)
            except StopIteration as stop:
                return stop.value
            if is_last and isinstance(progress, Step):
                taken.append(progress.number)
                is_bounded = start.training.recipe.budget_seconds is not None
                ahead[0] += 2 * HOUR * (is_bounded and progress.number == CUT_AT - 1)
            yield progress

    monkeypatch.setattr(auto, "adapt_within_bounds", noted)
    return taken


def ask(asker, examples=ROWS, recipe=FEW_STEPS, **more):
    rows = json.dumps([{"input": e.input, "target": e.target} for e in examples])
    return asker.now(rows, recipe, inputs=[examples[0].input], **more)


def receipt_of(asker):
    return read_receipt(json.dumps(asker.values("receipt")[-1]))


def test_steps_on_all_examples_that_were_cut_short_go_on(runner, elsewhere, cut_in_the_last_run):
    asker = Asker(runner)
    first = ask(asker, recipe=CUT).report
    assert (first["steps"], first["stop_reason"]) == (CUT_AT, "budget_seconds")
    assert cut_in_the_last_run == [*range(1, CUT_AT + 1)]
    whole = ask(asker)
    assert cut_in_the_last_run == [*range(1, STEPS + 1)]
    assert (whole.report["steps"], whole.report["known"]) == (STEPS, False)
    assert whole.adapter == ask(Asker(elsewhere)).adapter
    assert ask(asker).report["known"] is True


@pytest.mark.usefixtures("cut_in_the_last_run")
def test_steps_that_were_cut_short_are_replayed_after_whole_folds(runner, elsewhere):
    asker = Asker(runner)
    ask(asker, recipe=CUT)
    replayed = replay(elsewhere, receipt_of(asker), ROWS)
    assert replayed.differences == ()  # names what is_promised would only deny
    assert (replayed.is_promised, replayed.is_equal, replayed.steps) == (True, True, CUT_AT)


@pytest.mark.usefixtures("gradients_win")
def test_a_budget_that_was_over_before_any_step_is_replayed_without_one(runner, elsewhere):
    asker = Asker(runner)
    short = Recipe(AUTO, max_steps=STEPS, learning_rate=0.01, budget_seconds=0.001)
    report = ask(asker, recipe=short).report
    assert (report["steps"], report["stop_reason"]) == (0, "budget_seconds")
    replayed = replay(elsewhere, receipt_of(asker), ROWS)
    assert replayed.differences == ()  # names what is_promised would only deny
    assert (replayed.is_promised, replayed.is_equal, replayed.steps) == (True, True, 0)


def test_what_folds_say_that_were_cut_short_is_not_known(runner, monkeypatch):
    choose(monkeypatch, BASE)
    looks = iter([False, True])  # after the closed form, and after the folds
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AutoStart, "is_over", property(lambda _: next(looks)))
        assert ask(Asker(runner), recipe=CUT).report["stop_reason"] == "budget_seconds"
    report = ask(Asker(runner)).report
    assert (report["known"], report["stop_reason"]) == (False, "decided")


@pytest.fixture
def spoilt(runner):
    """A runner that keeps wrong features of some examples, as another batch would change bits."""
    ask(Asker(runner), ROWS[:12])
    digests = input_digests([row.input for row in ROWS[:12]])
    for entry in runner.cache.kept.features.get("", digests):
        assert isinstance(entry, torch.Tensor)
        entry.add_(1e-6)
    return runner


@pytest.mark.usefixtures("gradients_win")
@pytest.mark.parametrize("method", [AUTO, "head"])
def test_kept_features_change_no_bit_where_the_answer_must_be_exact(spoilt, elsewhere, method):
    recipe = Recipe(method, max_steps=STEPS, batch_size=8, learning_rate=0.01 * (method == AUTO))
    with_kept = ask(Asker(spoilt), recipe=recipe, fresh=True)
    assert with_kept.report["bit_for_bit"] is False
    asker = Asker(spoilt)
    exact = ask(asker, recipe=recipe, fresh=True, deterministic=True)
    assert (exact.report["known"], exact.report["bit_for_bit"]) == (False, True)
    if method == "head":  # gradients begin here with the base's own head, as few examples do
        assert exact.adapter != with_kept.adapter
    assert exact.adapter == ask(Asker(elsewhere), recipe=recipe, fresh=True).adapter
    assert replay(spoilt, receipt_of(asker), ROWS).is_equal
    again = ask(Asker(spoilt), recipe=recipe, deterministic=True).report
    assert (again["known"], again["bit_for_bit"]) == (True, True)


def test_a_replay_promises_nothing_where_kept_features_were_used(spoilt):
    asker = Asker(spoilt)
    ask(asker, fresh=True)
    assert replay(spoilt, receipt_of(asker), ROWS).is_promised is False

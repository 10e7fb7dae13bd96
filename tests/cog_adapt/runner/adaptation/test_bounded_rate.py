"""An automatic rate that multiplies the loss is cut; a caller's own rate stays as sent."""

import asyncio
import copy
import math
import time
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from cog_adapt.runner.adaptation.report import Step
from cog_adapt.runner.adaptation.run import adapt
from cog_adapt.runner.adaptation.start import Checkpoints
from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.errors import AdaptationError
from cog_adapt.runner.model.loaded_model import LoadedModel
from cog_adapt.runner.request import Request
from cog_adapt.runner.requests.few_shot import answer
from cog_adapt.runner.task.task import Task
from gradient_check.phases.loss_growth import is_multiplied
from tests.cog_adapt.devices import DEVICE
from tests.cog_adapt.models import SHAPES, examples
from tests.cog_adapt.runner.ticks import drained

GRID = torch.linspace(0, 1, 16).reshape(4, 4)
ROWS = [{"input": ((GRID * n) % 1).tolist(), "target": n / 9} for n in range(10)]
EXAMPLES = [Example(row["input"], row["target"]) for row in ROWS]


class Depthwise(Task):
    """Convolutions of one input channel each: the automatic rate is far too high."""

    method = "all"

    def load(self) -> nn.Module:
        torch.manual_seed(0)
        layers: list[nn.Module] = [nn.Conv2d(1, 32, 3, padding=1)]
        for groups in (32, 32, 1, 32, 32, 1, 32, 32, 1):
            layers += [nn.ReLU(), nn.Conv2d(32, 32, 5, padding=2, groups=groups)]
        net = nn.Sequential(*layers, nn.ReLU(), nn.Conv2d(32, 1, 1))
        for weight in net.parameters():
            if weight.dim() > 1:
                nn.init.kaiming_normal_(weight, nonlinearity="relu")
        return net

    def encode(self, inputs):
        return {"x": torch.tensor(inputs, dtype=torch.float32)[:, None]}

    def loss(self, module, batch, targets):
        return (module(batch["x"])[:, 0] - targets[:, None, None]).square().mean((1, 2))

    def predict(self, module, batch, labels, options):
        return module(batch["x"]).mean((1, 2, 3)).tolist()

    def probe(self):
        return EXAMPLES[:2]


@pytest.fixture(scope="module")
def model():
    return LoadedModel(Depthwise(), RunnerSettings(device=DEVICE, precision="fp32"))


def run(model, recipe=None, **given):
    recipe = recipe or Recipe(max_steps=8, batch_size=4)
    progress, done = drained(model.adapting(EXAMPLES, recipe, **given))
    return [step for step in progress if isinstance(step, Step)], done


def losses(done):
    return [step.loss for step in done.report.steps]


def test_a_rate_that_multiplies_the_loss_is_cut_until_no_step_does(model):
    _, done = run(model)
    first = done.report.taken_back[0]
    assert is_multiplied(first.first_loss, first.loss)
    assert first.step == 2
    cuts = len(done.report.taken_back)
    assert done.report.learning_rate == first.learning_rate / 4**cuts
    assert done.report.steps[0].learning_rate == done.report.learning_rate
    assert len(done.report.steps) == 8
    assert not any(is_multiplied(losses(done)[0], loss) for loss in losses(done))


def test_the_cut_rate_gives_the_same_bits_again_and_when_it_is_sent(model):
    _, done = run(model)
    assert run(model)[1].adapter.id == done.adapter.id
    assert done.recipe.learning_rate == done.report.learning_rate
    sent = run(model, done.recipe)[1]
    assert sent.adapter.id == done.adapter.id
    assert sent.report.taken_back == ()


def test_a_rate_that_is_sent_stays_whatever_the_loss_does(model):
    rate = run(model)[1].report.taken_back[0].learning_rate
    done = run(model, Recipe(max_steps=8, batch_size=4, learning_rate=rate))[1]
    assert done.report.learning_rate == rate
    assert done.report.taken_back == ()
    assert any(is_multiplied(losses(done)[0], loss) for loss in losses(done))


@pytest.mark.parametrize("shape", SHAPES)
def test_where_no_step_multiplies_the_loss_nothing_changes(shape):
    model = LoadedModel(SHAPES[shape](), RunnerSettings(device=DEVICE, precision="fp32"))
    recipe = Recipe("all", max_steps=5, seed=3)
    done = drained(model.adapting(examples(shape, 8), recipe))[1]
    tensors, report = drained(adapt(model.start(examples(shape, 8), recipe)))[1]
    assert [step.loss for step in report.steps] == losses(done)
    assert all(torch.equal(tensor, done.adapter.tensors[name]) for name, tensor in tensors.items())


def test_a_killed_run_goes_on_at_the_cut_rate(model):
    states: list[Any] = []
    keeping = Checkpoints(load=lambda: None, save=states.append, every=1)
    _, whole = run(model, checkpoints=keeping)
    kept = [state for state in states if len(state.steps) < 8][-3:]
    for state in kept:
        resumed = Checkpoints(load=partial(copy.copy, state), save=lambda _: None, every=1)
        done = run(model, checkpoints=resumed)[1]
        assert done.adapter.id == whole.adapter.id
        assert losses(done) == losses(whole)


def test_a_killed_run_whose_loss_grows_later_begins_again(model):
    states: list[Any] = []
    keeping = Checkpoints(load=lambda: None, save=states.append, every=1)
    _, whole = run(model, checkpoints=keeping)
    first = states[0]
    assert first.steps[0].learning_rate == whole.report.taken_back[0].learning_rate
    resumed = Checkpoints(load=partial(copy.copy, first), save=lambda _: None, every=1)
    assert run(model, checkpoints=resumed)[1].adapter.id == whole.adapter.id


def spoiled(model, monkeypatch, is_bad):
    """Let training losses of the task be infinite when `is_bad` says so."""
    loss = model.task.loss
    calls: list[None] = []

    def changed(module, batch, targets):
        found = loss(module, batch, targets)
        if torch.is_grad_enabled():
            calls.append(None)
            return found * math.inf if is_bad(len(calls)) else found
        return found

    monkeypatch.setattr(model.task, "loss", changed)
    return calls


def test_a_loss_that_is_no_number_after_a_step_is_taken_back_too(monkeypatch):
    model = LoadedModel(SHAPES["regression"](), RunnerSettings(device=DEVICE, precision="fp32"))
    run_of = partial(model.adapting, examples("regression", 8), Recipe("all", max_steps=4))
    drained(run_of())  # measures the memory of a step, with the task's own loss
    spoiled(model, monkeypatch, lambda call: call == 3)
    done = drained(run_of())[1]
    (back,) = done.report.taken_back
    assert (back.step, back.loss) == (3, None)
    assert len(done.report.steps) == 4


@pytest.mark.parametrize(("is_bad", "tries"), [(lambda call: True, 1), (lambda call: call > 1, 8)])
def test_a_loss_that_stays_no_number_is_an_error_after_a_few_tries(monkeypatch, is_bad, tries):
    model = LoadedModel(SHAPES["regression"](), RunnerSettings(device=DEVICE, precision="fp32"))
    run_of = partial(model.adapting, examples("regression", 8), Recipe("all", max_steps=4))
    drained(run_of())
    calls = spoiled(model, monkeypatch, is_bad)
    with pytest.raises(AdaptationError, match="the loss is (inf|nan)"):
        drained(run_of())
    assert len(calls) <= tries


def test_a_budget_counts_the_steps_that_were_taken_back(model, monkeypatch):

    clock = iter(range(10_000))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    steps, done = run(model, Recipe(max_steps=1000, batch_size=4, budget_seconds=40.0))
    assert done.report.taken_back
    assert done.report.stop_reason == "budget_seconds"
    assert len(steps) < 40


def test_a_cut_rate_is_in_the_report_and_its_warnings(make_runner):
    runner = make_runner(Depthwise())
    request = Request(inputs=[ROWS[0]["input"]], examples=ROWS, recipe=Recipe(max_steps=8))
    report: Any = asyncio.run(answer(runner, request)).report
    (warning,) = report["warnings"]
    first = report["taken_back"][0]
    assert warning == (
        f"the automatic learning rate {first['learning_rate']:.2g} made the loss rise from "
        f"{first['first_loss']:.3g} to {first['loss']:.3g} in step {first['step']}: the steps "
        f"were taken again from the start, at {report['learning_rate']:.2g}. Send "
        "`learning_rate` to choose it"
    )
    known: Any = asyncio.run(answer(runner, request)).report
    assert (known["known"], known["warnings"]) == (True, [warning])


def test_a_net_of_convolutions_needs_no_method_head_label_or_target(make_runner):
    runner = make_runner(type("Plain", (Depthwise,), {"method": Task.method})())
    tested = runner.self_test()
    assert tested.passed, str(tested)
    findings = [finding for report in tested.reports for finding in report.findings]
    (said,) = [finding for finding in findings if finding.code == "default-method"]
    assert said.message == (
        "Sequential has no linear layer for LoRA: the default method is 'all', which trains every "
        "parameter."
    )
    for method in ("", "auto"):
        recipe = Recipe(method, max_steps=2)
        request = Request(inputs=[ROWS[0]["input"]], examples=ROWS, recipe=recipe)
        done: Any = asyncio.run(answer(runner, request))
        assert done.report["method"] == "all"
        if method == "auto":
            assert done.report["decision"]["expected"] == (
                "no estimate: only a head over `features`, which Plain lacks, answers examples "
                "left out"
            )
        assert done.predictions != done.before

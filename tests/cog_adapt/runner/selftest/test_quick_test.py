"""The quick self-test: one real step, and answers and bits around it."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.errors import ConfigError
from cog_adapt.runner.inference.answers import Query
from cog_adapt.runner.inference.label_tensors import finished
from cog_adapt.runner.model.loaded_model import LoadedModel
from cog_adapt.runner.selftest.quick_test import check_quickly
from cog_adapt.runner.selftest.run import run_self_test
from cog_adapt.runner.task.task import Task
from gradient_check.phases.modes import under_inference_mode
from gradient_check.tests.states import module_state, process_state, thread_modes
from tests.cog_adapt.models import SHAPES, Images, Letters

CHECKS = ["modes", "serve before", "step", "serve after", "base"]


def loaded(task, precision="fp32"):
    return LoadedModel(task, RunnerSettings(device="cpu", precision=precision))


def found(report):
    return [f.code for f in report.findings if f.level == "FAIL"]


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_passes_and_is_left_as_it_was(shape, precision):
    model = loaded(SHAPES[shape](), precision)
    before = module_state(model.base.module), process_state(), thread_modes()
    report = check_quickly(model, None)
    assert report.passed, str(report)
    assert [check.name for check in report.checks] == CHECKS
    assert {check.status for check in report.checks} <= {"passed", "warned"}
    assert (module_state(model.base.module), process_state(), thread_modes()) == before
    assert model.predictions.modules.served.gauges()["adapter_cache_entries"] == 0.0


def test_it_takes_one_step_by_the_code_of_every_adaptation(monkeypatch):
    model, taken = loaded(Letters()), []
    adapting = model.adapting

    def watched(examples, recipe):
        taken.append(recipe.max_steps)
        return adapting(examples, recipe)

    monkeypatch.setattr(model, "adapting", watched)
    assert under_inference_mode(check_quickly, model, None).passed
    assert taken == [1]


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (lambda losses: losses.detach(), "step"),
        (lambda losses: losses * 0.0, "no-gradient"),
        (lambda losses: losses * float("nan"), "step"),
        (lambda losses: losses.round(), "no-gradient"),
    ],
)
def test_a_step_without_a_gradient_fails(fault, code):
    task: Any = Images()
    task.fault = fault
    report = check_quickly(loaded(task), None)
    assert found(report) == [code], str(report)
    assert [c.status for c in report.checks if c.name == "serve after"] != ["passed"] or code != (
        "step"
    )


def test_a_mode_decorator_on_an_async_door_is_found():
    @torch.inference_mode()
    async def run(text):
        return text

    assert found(check_quickly(loaded(Letters()), run)) == ["async-decorated"]


class Writing(Images):
    """Its loss writes to the base, past its version counter."""

    base: Any

    def load(self):
        self.base = super().load()
        return self.base

    def loss(self, module, batch, targets):
        self.base.fc.weight.data.mul_(1.5)
        return super().loss(module, batch, targets)


def test_a_base_that_a_step_changed_fails_in_its_bits_and_is_refused_from_then_on():
    model = loaded(Writing())
    report = check_quickly(model, None)
    assert "base-changed" in found(report), str(report)
    assert "fc.weight (checksum)" in str(report)
    assert model.damage


class Noting(Images):
    """It notes that a loss was taken; no bit of the base changes."""

    trained = False

    def loss(self, module, batch, targets):
        type(self).trained = True
        return super().loss(module, batch, targets)


class Drifting(Noting):
    """It answers otherwise once a loss was taken."""

    def predict(self, module, batch, labels, options):
        answers = super().predict(module, batch, labels, options)
        return [["other"] for _ in answers] if self.trained else answers


def test_a_base_that_answers_otherwise_after_the_step_fails():
    assert found(check_quickly(loaded(Drifting()), None)) == ["base-changed"]


class Forgetful(Noting):
    """It gives fewer answers once a loss was taken."""

    def predict(self, module, batch, labels, options):
        answers = super().predict(module, batch, labels, options)
        return answers[:1] if self.trained else answers


def test_an_adapter_that_gives_fewer_answers_fails():
    report = check_quickly(loaded(Forgetful()), None)
    assert "serve" in found(report)
    assert "an adapter gave 1 answers to 2 inputs" in str(report)


class Wavering(Noting):
    """Its answers differ in the last digits once a loss was taken."""

    def predict(self, module, batch, labels, options):
        return [1.0 + 1e-6 * self.trained for _ in batch["x"]]


def test_answers_that_differ_in_digits_after_the_step_are_a_warning():
    report = check_quickly(loaded(Wavering()), None)
    assert report.passed, str(report)
    assert report.codes == ("nondeterministic",)


class Random(Images):
    """It answers with noise."""

    def predict(self, module, batch, labels, options):
        return [float(F.relu(torch.rand(())) + 2) for _ in batch["x"]]


def test_random_answers_are_a_warning_and_not_compared():
    report = check_quickly(loaded(Random()), None)
    assert report.passed
    assert report.codes == ("random-inference",)


@dataclass(frozen=True)
class Drawing:
    """How many steps an answer takes."""

    steps: int = 50


class Diffusing(Task):
    """It notes with how many steps it answers."""

    options, probe_options = Drawing(), Drawing(steps=1)

    def __init__(self):
        super().__init__()
        self.steps = set()

    def predict(self, module, batch, labels, options):
        self.steps.add(options.steps)
        return super().predict(module, batch, labels, options)  # type: ignore[safe-super]


@pytest.mark.parametrize("shape", ["images", "lazy"])
def test_the_probe_is_answered_by_its_own_options_and_a_request_by_the_usual_ones(shape):
    model = loaded(type("Own", (Diffusing, SHAPES[shape]), {})())
    assert check_quickly(model, None).passed
    assert run_self_test(model).passed
    assert model.task.steps == {1}
    asked = Query([model.task.probe()[0].input], labels=("0", "1"))
    finished(model.predictions.part(asked).working())
    assert 50 in model.task.steps


def test_options_of_the_probe_are_of_the_class_of_the_options():
    with pytest.raises(ConfigError, match=r"probe_options is 3, and `options` is Drawing"):
        loaded(type("Wrong", (Diffusing, Images), {"probe_options": 3})())

"""The gradient is the same wherever a phase is called from, or the way that changes it is named."""

import threading
from typing import Any

import pytest
import torch

from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.model.loaded_model import LoadedModel
from cog_adapt.runner.selftest import calling_contexts
from cog_adapt.runner.selftest.calling_contexts import check_calling_contexts, probe_of
from gradient_check.instruments.portions import HeldGradients
from gradient_check.phases.precision import Precision
from tests.cog_adapt.devices import DEVICE, PLACE
from tests.cog_adapt.models import Images, Letters, examples

WAYS = ["another-thread", "ambient-inference", "checkpointing"]


def start_of(task, shape="letters", precision="fp32"):
    model = LoadedModel(task, RunnerSettings(device=DEVICE, precision=precision))
    return model.start(examples(shape, 4), Recipe("all"))


def test_a_healthy_model_gives_the_same_gradient_in_every_way():
    report = check_calling_contexts(start_of(Letters()))
    assert report.passed
    assert [check.name for check in report.checks] == WAYS
    assert all(check.status == "passed" for check in report.checks)
    assert all(check.numbers["relative error"] < 1e-4 for check in report.checks)
    assert report.precision == f"{PLACE}/fp32"
    assert 0 < sum(check.seconds for check in report.checks) < report.seconds


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_sixteen_bits_pass_too(precision):
    report = check_calling_contexts(start_of(Letters(), precision=precision))
    assert report.passed, str(report)


def test_a_model_without_blocks_is_not_recomputed():
    report = check_calling_contexts(start_of(Images(), "images"))
    assert [check.name for check in report.checks] == WAYS[:2]


class OfItsThread(Letters):
    """Its loss is another one off the main thread."""

    def loss(self, module, batch, targets):
        losses = super().loss(module, batch, targets)
        is_main = threading.current_thread() is threading.main_thread()
        return losses if is_main else 2 * losses


def test_a_gradient_of_another_thread_that_differs_is_a_failure():
    report = check_calling_contexts(start_of(OfItsThread()))
    (finding,) = report.findings
    assert (finding.code, finding.level) == ("another-thread", "FAIL")
    assert "differs by 1.0e+00 of its norm" in finding.message
    assert "the limit is 1e-04" in finding.message
    assert [check.status for check in report.checks] == ["failed", "passed", "passed"]
    assert report.checks[0].numbers["relative error"] == pytest.approx(1.0)


class Raising(Letters):
    def loss(self, module, batch, targets):
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("only at home")
        return super().loss(module, batch, targets)


def test_an_error_on_another_thread_is_a_failure_with_its_text():
    report = check_calling_contexts(start_of(Raising()))
    (finding,) = report.findings
    assert finding.code == "another-thread"
    assert "no gradient could be taken: only at home" in finding.message
    assert report.checks[0].status == "failed"
    assert 0 < report.checks[0].seconds < report.seconds


def test_contexts_that_change_the_gradient_only_together_are_a_failure(monkeypatch):
    def spoilt(step, start):
        calling_contexts._take_gradient(step, start)
        step.trained[0].grad.mul_(3)

    monkeypatch.setattr(calling_contexts, "_together", spoilt)
    report = check_calling_contexts(start_of(Letters()))
    assert report.codes == ("together",)
    statuses = {check.name: check.status for check in report.checks}
    assert statuses == {**dict.fromkeys(WAYS, "passed"), "together": "failed"}


class CountsForwards(Letters):
    """What its feed-forward layers give depends on how often they ran."""

    def module(self):
        module: Any = super().module()
        feed = module.blocks[0].feed
        feed.calls = 0
        kind: Any = type(feed)

        class Counting(kind):
            def forward(self, x):
                self.calls += 1
                return super().forward(x) * (1 + self.calls % 2)

        feed.__class__ = Counting
        return module


def test_a_block_that_a_recomputation_changes_is_a_failure_of_checkpointing():
    report = check_calling_contexts(start_of(CountsForwards()))
    assert "checkpointing" in report.codes


def distance(gradient, expected):
    """The relative error of a way that leaves these gradients."""
    held = HeldGradients({n: torch.nn.Parameter(torch.zeros(4)) for n in ("a", "b")})

    def way():
        for name, values in gradient.items():
            held.parameters[name].grad = values

    compared = calling_contexts._Compared("way", way)
    compared.compare(held, expected)
    check, _ = compared.judge(Precision(torch.device("cpu")))
    return check.numbers["relative error"]


def test_gradients_of_other_parameters_are_infinitely_far():
    ones = {"a": torch.ones(4), "b": torch.ones(4)}
    assert distance({"a": torch.ones(4)}, ones) == float("inf")
    assert distance(ones, ones) == 0.0
    other = {"a": torch.ones(4), "b": torch.zeros(4)}
    assert distance(other, ones) == pytest.approx(0.5**0.5)
    zeros = {"a": torch.zeros(4), "b": torch.zeros(4)}
    assert distance(zeros, zeros) == 0.0


def test_of_a_large_module_a_portion_is_compared_at_a_time(monkeypatch):
    monkeypatch.setattr(calling_contexts, "SMALL_BYTES", 0)
    model = LoadedModel(Images(), RunnerSettings(device="cpu"))
    start = model.start(model.task.probe(), Recipe("all"))
    taken: list[Any] = []
    plain = calling_contexts._taken

    def noted(own):
        taken.append(plain(own))
        return taken[-1]

    monkeypatch.setattr(calling_contexts, "_taken", noted)
    report = check_calling_contexts(start)
    assert report.passed
    assert all(check.numbers == {"relative error": 0.0} for check in report.checks)
    names = set().union(*taken)
    assert names == set(start.trained.tensors)
    assert max(map(len, taken)) < len(names)


@pytest.mark.parametrize(("method", "at_once"), [("head", 1), ("all", 4)])
def test_a_small_part_of_a_large_module_is_compared_at_once(monkeypatch, method, at_once):
    monkeypatch.setattr(calling_contexts, "SMALL_BYTES", 0)
    model = LoadedModel(Letters(), RunnerSettings(device="cpu"))
    start = model.start(model.task.probe(), Recipe(method))
    calls: list[Any] = []
    plain = calling_contexts._take_gradient

    def noted(*given):
        calls.append(given)
        plain(*given)

    monkeypatch.setattr(calling_contexts, "_take_gradient", noted)
    report = check_calling_contexts(start)
    assert report.passed
    assert len(report.checks) == 3
    assert len(calls) in ([2] if at_once == 1 else range(4, 9, 2))  # all contexts are met at once


def test_the_probe_is_the_starts_examples_encoded():
    start = start_of(Letters())
    batch, targets = probe_of(start)
    assert batch["ids"].shape == (4, 6)
    assert targets.tolist() == [
        list(start.data.labels).index(e.target) for e in start.data.examples
    ]

"""The gradient is the same wherever a phase is called from, or the way that changes it is named."""

import threading
from typing import Any

import pytest

from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.model.loaded_model import LoadedModel
from cog_adapt.runner.selftest import calling_contexts
from cog_adapt.runner.selftest.calling_contexts import check_calling_contexts, probe_of
from gradient_check.instruments.portions import HeldGradients
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


class OfTwoContexts(Letters):
    """Its loss is another one where it is recomputed, and off the main thread."""

    def loss(self, module, batch, targets):
        losses = super().loss(module, batch, targets)
        is_main = threading.current_thread() is threading.main_thread()
        is_recomputed = type(module.blocks[0]).__name__.startswith("Recomputed")
        return 3 * losses if is_recomputed and not is_main else losses


def test_contexts_that_change_the_gradient_only_together_are_a_failure():
    report = check_calling_contexts(start_of(OfTwoContexts()))
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


class OfItsHead(Letters):
    """Off the main thread its loss reaches the head alone."""

    def loss(self, module, batch, targets):
        losses = super().loss(module, batch, targets)
        is_main = threading.current_thread() is threading.main_thread()
        return losses if is_main else module.head.weight.sum().expand(len(targets))


def test_gradients_of_other_parameters_are_infinitely_far():
    report = check_calling_contexts(start_of(OfItsHead()))
    (finding,) = report.findings
    assert finding.code == "another-thread"
    assert report.checks[0].numbers["relative error"] == float("inf")


class Zero(Letters):
    def loss(self, module, batch, targets):
        return 0 * super().loss(module, batch, targets)


def test_gradients_of_zero_are_the_same_everywhere():
    report = check_calling_contexts(start_of(Zero()))
    assert report.passed
    assert {check.numbers["relative error"] for check in report.checks} == {0.0}


def test_of_a_large_module_a_portion_is_compared_at_a_time(monkeypatch):
    monkeypatch.setattr(calling_contexts, "SMALL_BYTES", 0)
    model = LoadedModel(Images(), RunnerSettings(device="cpu"))
    start = model.start(model.task.probe(), Recipe("all"))
    taken: list[Any] = []
    keep = HeldGradients.keep

    def noted(held, names):
        taken.append(names)
        keep(held, names)

    monkeypatch.setattr(HeldGradients, "keep", noted)
    report = check_calling_contexts(start)
    assert report.passed
    assert all(check.numbers == {"relative error": 0.0} for check in report.checks)
    names = set().union(*taken)
    assert names == set(start.trained.tensors)
    assert max(map(len, taken)) < len(names)


@pytest.mark.parametrize(("method", "at_once"), [("head", 1), ("all", 4)])
def test_a_small_part_of_a_large_module_is_compared_at_once(monkeypatch, method, at_once):
    monkeypatch.setattr(calling_contexts, "SMALL_BYTES", 0)
    task = Letters()
    start = LoadedModel(task, RunnerSettings(device="cpu")).start(task.probe(), Recipe(method))
    calls: list[Any] = []

    def counted(losses):
        calls.append(losses)
        return losses

    task.fault = counted
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

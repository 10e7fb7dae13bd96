"""What the callbacks share: the modes that surround them, and what a failure does."""

from typing import Any

import pytest
import torch
from torch import nn

from gradient_check.hooks.first_step import FirstStep, GradientFlowWarning
from gradient_check.phases.errors import ConfigError, GradientFlowError


def loss(output):
    return output.square().mean()


def check(module, on_failure="raise", batch=None, **options):
    torch.manual_seed(0)
    first_step = FirstStep(on_failure, options)
    first_step.check(module, torch.randn(3, 4) if batch is None else batch, loss, None)
    return first_step.report


def test_only_parameters_that_require_a_gradient_are_checked():
    module = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    module[0].requires_grad_(False)
    report = check(module)
    assert report.passed
    assert set(report.gradient_norms) == {"1.weight", "1.bias"}
    assert report.codes == ()


def test_where_all_is_frozen_nothing_can_be_trained():
    module = nn.Linear(4, 2).requires_grad_(False)
    with pytest.raises(GradientFlowError, match="nothing-trainable"):
        check(module)


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        (torch.inference_mode, r"under torch.inference_mode\(\).*`with torch.inference_mode\(Fa"),
        (torch.no_grad, r"under torch.no_grad\(\).*`torch.enable_grad\(\)`"),
    ],
)
def test_a_mode_in_which_training_would_record_nothing_fails(mode, said):
    module, batch = nn.Linear(4, 2), torch.randn(3, 4)
    with mode(), pytest.raises(GradientFlowError, match=said):
        check(module, batch=batch)
    assert check(module, batch=batch).passed


def test_inference_mode_counts_also_where_autograd_says_it_is_on():
    module, batch = nn.Linear(4, 2), torch.randn(3, 4)
    failing = pytest.raises(GradientFlowError, match="thread-mode")
    with torch.inference_mode(), torch.enable_grad(), failing:
        check(module, batch=batch)


def test_a_failure_warns_where_that_is_asked_for():
    with pytest.warns(GradientFlowWarning, match="nothing-trainable"):
        report = check(nn.Linear(4, 2).requires_grad_(False), "warn")
    assert not report.passed


@pytest.mark.parametrize("on_failure", ["raise", "warn"])
def test_a_warning_of_the_report_is_a_warning(on_failure):
    module = nn.Linear(4, 2)
    with pytest.warns(GradientFlowWarning, match="exploding"):
        assert check(module, on_failure, batch=torch.randn(3, 4) * 1e4).passed


def test_inferences_that_disturb_each_other_are_a_note_in_a_training_run(monkeypatch):
    monkeypatch.setattr(
        "gradient_check.check.judge_concurrency",
        lambda operation: operation.flow.exam.add("WARN", "race", "two inferences differ"),
    )
    (finding,) = check(nn.Linear(4, 2)).findings  # without a warning, which fails a test here
    assert (finding.code, finding.level) == ("race", "NOTE")


def test_another_word_for_a_failure_is_refused():
    word: Any = "ignore"
    with pytest.raises(ConfigError, match="on_failure is 'ignore'; allowed: raise, warn"):
        FirstStep(word, {})

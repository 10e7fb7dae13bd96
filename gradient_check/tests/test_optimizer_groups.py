"""An optimizer must hold what is trained, no more and no less, at a rate above 0."""

import re

import pytest
import torch
from torch import nn

from gradient_check.checks.flow import GradientFlow
from gradient_check.checks.optimizer_groups import optimizer_fits
from gradient_check.tests.flows import flow_of, found, only, sgd, tower

OTHERS = nn.Linear(2, 2)


def judged(make) -> tuple[bool, GradientFlow]:
    flow = flow_of(tower(), make_optimizer=make)
    return optimizer_fits(flow.subject, flow.exam), flow


def test_of_an_optimizer_that_fits_nothing_is_told() -> None:
    fits, flow = judged(sgd(0.1))
    assert fits
    assert found(flow) == []


def test_an_optimizer_that_needs_a_closure_is_told_in_words() -> None:
    fits, flow = judged(lambda p: torch.optim.LBFGS(list(p)))
    assert not fits
    finding = only(flow)
    assert (finding.code, finding.level) == ("optimizer", "FAIL")
    assert "LBFGS.step needs a closure" in finding.message
    assert "AdamW" in finding.message


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda p: torch.optim.SGD(list(p)[:6], lr=0.1), "leaves out 2 trained .*and holds 0"),
        (lambda p: torch.optim.SGD([*p, *OTHERS.parameters()], lr=0.1), "leaves out 0 .*holds 2"),
    ],
)
def test_an_optimizer_of_other_parameters_does_not_fit(make, text: str) -> None:
    fits, flow = judged(make)
    assert not fits
    finding = only(flow)
    assert (finding.code, finding.level) == ("not-optimized", "FAIL")
    assert re.search(text, finding.message)


def warming(parameters) -> torch.optim.Optimizer:
    optimizer = torch.optim.SGD(parameters, lr=0.0)
    optimizer.param_groups[0]["initial_lr"] = 0.1
    return optimizer


@pytest.mark.parametrize(("make", "level"), [(sgd(0.0), "FAIL"), (warming, "WARN")])
def test_a_rate_of_zero_fails_unless_a_schedule_warms_up(make, level: str) -> None:
    fits, flow = judged(make)
    assert fits
    finding = only(flow)
    assert (finding.code, finding.level) == ("lr-zero", level)
    assert "in 1 of 1 groups" in finding.message

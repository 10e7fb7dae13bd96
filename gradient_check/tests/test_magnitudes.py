"""Gradients that vanish or explode are warnings that name the layer."""

from typing import Any

import pytest
import torch
from torch import nn

from gradient_check import check_gradients
from gradient_check.checks.magnitudes import judge_magnitudes
from gradient_check.exam.known.hosts import rows, squares
from gradient_check.tests.flows import found, measured, only, tower


def flow_with(norms: dict[str, float]) -> Any:
    flow = measured(tower())
    flow.gradient_norms = {**flow.gradient_norms, **norms}
    return flow


def test_usual_gradients_are_no_warning() -> None:
    flow = flow_with({})
    judge_magnitudes(flow)
    assert found(flow) == []


@pytest.mark.parametrize(("norm", "code"), [(1e-9, "vanishing"), (2e3, "exploding")])
def test_a_layer_far_off_is_named(norm: float, code: str) -> None:
    flow = flow_with({"first.weight": norm, "first.bias": norm})
    judge_magnitudes(flow)
    finding = only(flow)
    assert (finding.level, finding.code, finding.module) == ("WARN", code, "first")


def test_a_leap_between_neighbouring_blocks_names_the_smaller() -> None:
    small = {f"blocks.0.linear.{leaf}": 1e-6 for leaf in ("weight", "bias")}
    flow = flow_with(small)
    judge_magnitudes(flow)
    finding = only(flow)
    assert (finding.level, finding.code, finding.module) == ("WARN", "vanishing", "blocks.0")


def test_a_deep_stack_of_sigmoids_vanishes() -> None:
    layers = [part for _ in range(12) for part in (nn.Linear(6, 6), nn.Sigmoid())]
    report = check_gradients(nn.Sequential(*layers, nn.Linear(6, 2)), rows(3, 6), squares)
    assert report.passed
    assert set(report.codes) == {"vanishing", "unverified"}


def test_what_lies_below_the_noise_is_named_as_not_verified() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.outer = nn.Linear(6, 6), nn.Linear(6, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.outer(x + 1e-7 * torch.tanh(self.inner(x)))

    report = check_gradients(Scaled(), rows(3, 6), squares)
    (finding,) = (each for each in report.findings if each.code == "unverified")
    assert finding.level == "NOTE"
    assert set(finding.parameters) == {"inner.weight", "inner.bias"}

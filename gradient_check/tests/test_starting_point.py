"""Factors that all begin at 0 are reported; one that its partner wakes is not."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gradient_check.checks.flow import GradientFlow
from gradient_check.checks.starting_point import judge_starting_point
from gradient_check.tests.flows import found, measured, only, tower
from gradient_check.tests.models import seeded_module
from gradient_check.tests.present import present


class Factors(nn.Module):
    """A linear layer, and a product of two factors beside it."""

    def __init__(self, down: float, up: float) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 2)
        self.down = nn.Parameter(torch.full((3, 6), down))
        self.up = nn.Parameter(torch.full((2, 3), up))

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) + x @ self.down.T @ self.up.T


def judged(module: Any) -> GradientFlow:
    flow = measured(module)
    judge_starting_point(flow)
    return flow


def test_factors_that_both_begin_at_zero_are_never_left() -> None:
    finding = only(judged(seeded_module(lambda: Factors(0.0, 0.0))))
    assert (finding.level, finding.code) == ("FAIL", "grad-zero")
    assert finding.parameters == ("down", "up")
    assert "start one of them at another value" in finding.message


class Drawn(Factors):
    """Its factors are set to zero after they were drawn."""

    def __init__(self) -> None:
        super().__init__(1.0, 1.0)
        nn.init.zeros_(self.down)  # here
        nn.init.zeros_(self.up)


class Looped(Factors):
    def __init__(self) -> None:
        super().__init__(1.0, 1.0)
        for factor in (self.down, self.up):
            nn.init.zeros_(factor)  # here


class Made(Factors):
    def __init__(self) -> None:
        super().__init__(1.0, 1.0)
        self.down = nn.Parameter(torch.zeros(3, 6))  # here
        self.up = nn.Parameter(torch.zeros(2, 3))


class Given(Factors):
    def forward(self, x: Tensor) -> Tensor:
        low = x @ self.down.T  # here
        return self.linear(x) + low @ self.up.T


def given() -> Given:
    return Given(0.0, 0.0)


@pytest.mark.parametrize("make", [Drawn, Looped, Made, given], ids=lambda make: make.__name__)
def test_the_line_that_makes_them_begin_at_zero_is_named_or_the_one_that_uses_them(make) -> None:
    finding = only(judged(seeded_module(make)))
    assert present(finding.line).endswith("# here")


def test_a_factor_that_its_partner_wakes_is_sound() -> None:
    assert found(judged(seeded_module(lambda: Factors(0.5, 0.0)))) == []


def test_zeros_that_have_a_gradient_are_sound() -> None:
    module = tower()
    for part in (module.first, module.head):
        nn.init.zeros_(part.bias)
    assert found(judged(module)) == []


def test_what_only_the_probe_leaves_out_is_not_reported() -> None:
    class Routed(nn.Module):
        """An expert with zero biases that these values do not reach, and the perturbed ones do."""

        def __init__(self) -> None:
            super().__init__()
            self.route, self.expert = nn.Parameter(torch.zeros(1)), nn.Linear(6, 6)
            self.linear = nn.Linear(6, 2)
            nn.init.zeros_(self.expert.bias)

        def forward(self, x: Tensor) -> Tensor:
            is_open = (self.route.detach() != 0).float()
            return self.linear(x + is_open * self.expert(x)) + self.route

    assert found(judged(seeded_module(Routed))) == []


def test_values_and_gradients_are_as_before() -> None:
    flow = measured(seeded_module(lambda: Factors(0.0, 0.0)))
    own = flow.subject.parameters
    before = {n: (p.detach().clone(), p.grad) for n, p in own.items()}
    judge_starting_point(flow)
    assert all(torch.equal(before[n][0], p) and before[n][1] is p.grad for n, p in own.items())

"""Where backward's gradients arrived is told: errors, leaks, frozen parameters, NaN."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gradient_check import check_gradients
from gradient_check.checks.arrivals import judge_arrivals
from gradient_check.exam.known.hosts import Block, Tower, rows, squares
from gradient_check.tests.flows import found, only, ran, tower
from gradient_check.tests.models import seeded_module
from gradient_check.tests.present import present
from gradient_check.tests.test_flow import Raising


def judged(module: Any, **rest):
    flow = ran(module, **rest)
    return flow, judge_arrivals(flow)


def test_sound_gradients_are_measured_and_lay_the_grounds() -> None:
    flow, numbers = judged(tower())
    assert found(flow) == []
    assert numbers == {"missing": 0, "zero": 0}
    assert flow.exam.grounds == {"loss", "gradients", "finite gradients"}
    for name, parameter in flow.subject.parameters.items():
        assert flow.gradient_norms[name] == pytest.approx(float(parameter.grad.norm()))


def test_an_error_of_backward_ends_the_check_with_its_place() -> None:
    flow, numbers = judged(tower(lambda self, h: Raising.apply(h)))
    finding = only(flow)
    assert (finding.code, numbers) == ("backward", {})
    assert "no backward here" in finding.message
    assert "raise ValueError" in present(finding.line)
    assert flow.exam.grounds == {"loss"}


def freezing(self: Any, h: Tensor) -> Tensor:
    self.linear.weight.requires_grad_(False)
    return h


def test_what_the_forward_froze_is_told_once_and_not_as_missing_too() -> None:
    flow, numbers = judged(tower(freezing))
    flow.exam.findings[:] = [f for f in flow.exam.findings if f.code != "grad-none"]
    finding = only(flow)
    assert finding.code == "graph-cut"
    assert finding.parameters == ("blocks.1.linear.weight",)
    assert "requires_grad_(False)" in present(finding.line)
    assert numbers["missing"] in (0, 1)


def closed_over() -> Any:
    original = seeded_module(lambda: nn.Linear(6, 6))
    module = Tower(type("Closed", (Block,), {"spoil": lambda self, h: original(h)})())
    module.own = original
    return module


def test_gradients_that_landed_in_the_original_are_told_and_taken_away() -> None:
    module = closed_over()
    flow, numbers = judged(module)
    finding = only(flow)
    assert (finding.code, finding.level) == ("leak-to-base", "FAIL")
    assert finding.parameters == ("own.weight", "own.bias")
    assert "original(h)" in present(finding.line)
    assert module.own.weight.grad is None
    assert numbers["missing"] == 2


def rooted(self: Any, h: Tensor) -> Tensor:
    return h + (h - h).sqrt()


def test_gradients_that_are_not_finite_are_told_with_the_call() -> None:
    flow, _ = judged(tower(rooted))
    finding = only(flow)
    assert finding.code == "grad-nonfinite"
    assert "(h - h).sqrt()" in present(finding.line)
    assert "head.weight" not in finding.parameters
    assert "first.weight" in finding.parameters
    assert flow.exam.grounds == {"loss", "gradients"}


def test_gradients_of_which_none_is_sound_lay_no_ground() -> None:
    flow, _ = judged(tower(), loss=lambda output: squares(output) * 0)
    assert flow.exam.grounds == {"loss", "finite gradients"}
    flow, _ = judged(tower(), loss=lambda output: squares(output) * 1e30)
    assert "finite gradients" not in flow.exam.grounds


def test_a_norm_that_overflows_where_no_value_does_is_no_fault() -> None:
    flow, _ = judged(tower(), loss=lambda output: squares(output) * 1e30)
    assert any(math.isinf(norm) for norm in flow.gradient_norms.values())
    assert found(flow) == []


def test_after_a_loss_that_was_not_finite_nothing_is_said_of_gradients() -> None:
    flow, _ = judged(tower(), loss=lambda output: squares(output) / 0)
    assert [code for _, code in found(flow)] == ["loss-nonfinite"]


def spare() -> Any:
    module = tower()
    module.spare = nn.Linear(3, 3)
    return module


def test_a_missing_gradient_is_counted_and_judged() -> None:
    flow, numbers = judged(spare())
    assert numbers == {"missing": 2, "zero": 0}
    assert only(flow).code == "unused"
    assert only(flow).parameters == ("spare.weight", "spare.bias")


def test_what_may_be_unused_is_not_judged() -> None:
    flow, numbers = judged(spare(), unused=("spare.weight", "spare.bias"))
    assert found(flow) == []
    assert numbers["missing"] == 2


def test_a_zero_gradient_is_counted_and_judged_unless_it_may_be_unused() -> None:
    def dead(self: Any, h: Tensor) -> Tensor:
        return h * 0 + 1

    names = ("first.weight", "first.bias")
    flow, numbers = judged(tower(dead))
    assert numbers == {"missing": 0, "zero": 6}
    assert set(names) <= set(only(flow).parameters)
    flow, _ = judged(tower(dead), unused=names)
    assert not set(names) & set(only(flow).parameters)


def test_strangers_are_judged() -> None:
    scale = nn.Parameter(torch.ones(()))
    flow, _ = judged(tower(), loss=lambda output: squares(output * scale))
    assert found(flow) == [("WARN", "unregistered")]


def test_a_parameter_without_values_has_no_gradient_to_miss() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.none = nn.Linear(6, 2), nn.Parameter(torch.ones(0, 6))

        def forward(self, values):
            return torch.cat([self.linear(values), values @ self.none.t()], 1)

    report = check_gradients(Net(), rows(3, 6), squares)
    assert report.findings == ()

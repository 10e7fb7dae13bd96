"""Gradients are compared with the loss's slopes: whole, block by block, and at other points."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gradient_check.checks.blocks import judge_blocks
from gradient_check.checks.repeatability import judge_repeatability
from gradient_check.checks.slopes import GradientSlopes
from gradient_check.checks.whole_gradient import judge_whole_gradient
from gradient_check.checks.wrong_gradients import judge_wrong_gradients
from gradient_check.instruments import differences
from gradient_check.instruments.differences import Verdict
from gradient_check.instruments.directions import DirectionKind
from gradient_check.tests.flows import found, measured, only, tower
from gradient_check.tests.present import present
from gradient_check.tests.test_locality import Tripled


def slopes_of(module: nn.Module, **rest) -> GradientSlopes:
    return GradientSlopes(measured(module, **rest))


def judged(module: nn.Module, forward_seconds: float = 0.0):
    """The comparisons of a module whose forward takes so long, and the numbers of its blocks."""
    slopes = slopes_of(module)
    judge_repeatability(slopes.flow)
    slopes.flow.forward_seconds = forward_seconds
    judge_whole_gradient(slopes)
    return slopes, judge_blocks(slopes)


def test_right_gradients_pass_parameter_by_parameter() -> None:
    slopes, numbers = judged(tower())
    assert found(slopes.flow) == []
    assert set(slopes.verdicts) == {"(all)", *slopes.flow.subject.names}
    assert numbers["worst error"] == max(v.error for v in slopes.verdicts.values())
    assert numbers["worst error"] < 0.003


def cut(self: nn.Module, h: Tensor) -> Tensor:
    return h * h.mean(-1, keepdim=True).detach()


def test_a_wrong_gradient_fails_with_its_place_and_what_is_right() -> None:
    slopes, _ = judged(tower(cut))
    finding = only(slopes.flow)
    assert (finding.code, finding.level) == ("gradient-wrong", "FAIL")
    assert ".detach()" in present(finding.line)
    assert finding.module == "blocks.1 (Spoilt)"
    assert "blocks.1.linear.weight" in finding.parameters
    assert "head.weight" not in finding.parameters
    assert "right: head.weight" in finding.message


def test_where_blocks_are_wrong_the_whole_is_not_named_too() -> None:
    slopes, _ = judged(tower(lambda self, h: Tripled.apply(h)))
    assert slopes.verdicts["(all)"].wrong
    assert "(all)" not in only(slopes.flow).message
    assert "def backward(ctx" in present(only(slopes.flow).line)


def test_where_only_the_whole_is_wrong_every_parameter_is_named() -> None:
    slopes = slopes_of(tower(lambda self, h: Tripled.apply(h)))
    judge_whole_gradient(slopes)
    judge_wrong_gradients(slopes, ["(all)"], [])
    finding = only(slopes.flow)
    assert finding.parameters == tuple(slopes.flow.subject.names)
    assert "right: none" in finding.message


def test_the_whole_gradient_is_compared_along_itself() -> None:
    slopes = slopes_of(tower(lambda self, h: Tripled.apply(h)))
    assert judge_whole_gradient(slopes)["error"] > 0.003
    assert slopes.verdicts["(all)"].wrong
    assert judge_whole_gradient(slopes_of(tower()))["error"] < 0.003


def test_a_deep_or_slow_model_is_tested_block_by_block() -> None:
    slopes, _ = judged(tower(cut), forward_seconds=60.0)
    assert set(slopes.verdicts) == {"(all)", "first", "blocks.0", "blocks.1", "head"}
    finding = only(slopes.flow)
    assert "head" in finding.message.partition("right: ")[2]
    assert "head.weight" not in finding.parameters
    assert "blocks.1.linear.weight" in finding.parameters


_DRAWS = torch.Generator().manual_seed(1)


def noisy(self: Any, h: Tensor) -> Tensor:
    return h * (1 + 0.01 * torch.rand((), generator=_DRAWS))


def test_a_forward_that_does_not_repeat_is_a_warning_and_its_spread_is_kept() -> None:
    slopes = slopes_of(tower(noisy))
    spread = judge_repeatability(slopes.flow)["spread"]
    assert only(slopes.flow).code == "nondeterministic"
    assert spread == pytest.approx(slopes.flow.spread / abs(slopes.flow.loss))
    assert slopes.flow.spread > 0
    assert slopes.flow.forward_seconds > 0


def test_a_forward_that_repeats_has_no_spread() -> None:
    slopes = slopes_of(tower())
    assert judge_repeatability(slopes.flow) == {"spread": 0.0}
    assert found(slopes.flow) == []


def test_what_is_wrong_at_one_point_only_is_a_kink_and_no_fault(monkeypatch) -> None:
    slopes = slopes_of(tower())
    slopes.compare_blocks(slopes.flow.subject.names)
    once, always = "first.weight", "head.bias"
    slopes.verdicts |= dict.fromkeys((once, always), Verdict(1.0, wrong=True))
    points = []

    def again(block: str, loss: float) -> Verdict:
        points.append(loss)
        return Verdict(1.0, wrong=block == always)

    monkeypatch.setattr(slopes, "compare_again", again)
    judge_blocks(slopes)
    assert only(slopes.flow).parameters == (always,)
    assert len(points) == 3  # two at the first point, one at the second
    assert points[0] == points[1] != points[2]


def test_a_loss_that_jumps_is_at_most_rough() -> None:
    slopes = slopes_of(tower(lambda self, h: h + (h * 1e5).sin() * 1e-2))
    judge_repeatability(slopes.flow)
    judge_blocks(slopes)
    assert {code for _, code in found(slopes.flow)} <= {"rough"}


def test_a_block_along_which_no_differences_agree_is_a_warning() -> None:
    slopes = slopes_of(tower())
    slopes.compare_blocks(slopes.flow.subject.names)
    slopes.verdicts["first.weight"] = Verdict(1.0, rough=True)
    judge_blocks(slopes)
    assert found(slopes.flow) == [("WARN", "rough")]
    assert "the gradient of first.weight," in only(slopes.flow).message


def straight_through(self: nn.Module, h: Tensor) -> Tensor:
    return h + ((h * 4).round() / 4 - h).detach()


def test_a_straight_through_estimator_is_a_warning() -> None:
    slopes, _ = judged(tower(straight_through))
    finding = only(slopes.flow)
    assert (finding.code, finding.level) == ("surrogate", "WARN")
    assert ".detach()" in present(finding.line)


def test_parameters_without_a_gradient_are_left_out() -> None:
    module = tower()
    module.spare = nn.Linear(3, 3)
    slopes, _ = judged(module)
    assert "spare.weight" not in slopes.verdicts
    assert found(slopes.flow) == []


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        return x + 0.1 * self.linear(x)


def test_in_a_large_module_few_groups_move_far_so_that_few_parameters_stay_unverified(
    monkeypatch,
) -> None:
    monkeypatch.setattr("gradient_check.instruments.subject.SMALL_BYTES", 0)
    torch.manual_seed(0)
    module = nn.Sequential(*[Step() for _ in range(24)])
    slopes, numbers = judged(module, forward_seconds=60.0)
    assert found(slopes.flow) == []
    assert len(slopes.groups) == 8
    assert numbers["unverified"] == 0
    predicted = [verdict.predicted / slopes.flow.loss for verdict in slopes.verdicts.values()]
    assert sum(change > 0.015 for change in predicted) > len(predicted) / 2  # 0.002: a small move


class ByNorm(nn.Module):
    """Divides by a norm of its weights that the gradient takes for a constant; so do its parts."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(6, 6, bias=False), nn.Linear(6, 6, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        for part in (self.one, self.two):
            x = nn.functional.linear(x, part.weight / part.weight.detach().norm())
        return x


def test_a_large_module_is_compared_whole_along_its_values_alone(monkeypatch) -> None:
    monkeypatch.setattr("gradient_check.instruments.subject.SMALL_BYTES", 0)
    moved = []
    compare = differences.compare

    def noting(forward, tensors, *rest, ways, **named):
        moved.append((len(tensors), ways))
        return compare(forward, tensors, *rest, ways=ways, **named)

    monkeypatch.setattr(differences, "compare", noting)
    slopes = slopes_of(ByNorm())
    judge_whole_gradient(slopes)
    assert moved[0] == (1, [DirectionKind.VALUES])
    assert slopes.verdicts["(all, 1 of 2)"].wrong
    moved.clear()
    judged(nn.Sequential(Step(), Step()))
    assert {DirectionKind.VALUES} == {
        way for _, ways in moved if DirectionKind.BENT not in ways for way in ways
    }


def test_complex_gradients_are_compared_as_real_numbers() -> None:
    class Mixing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mix = nn.Parameter(torch.randn(6, 4, dtype=torch.complex64))

        def forward(self, x: Tensor) -> Tensor:
            return (x.to(torch.complex64) @ self.mix).abs()

    slopes, _ = judged(Mixing())
    assert found(slopes.flow) == []
    assert slopes.verdicts["mix"].error < 0.003


@pytest.mark.parametrize(("error", "unseen"), [(0.001, ["first.bias"]), (1e-4, [])])
def test_what_is_small_beside_the_error_of_its_block_is_not_verified(error, unseen) -> None:
    slopes = slopes_of(tower())
    slopes.groups = {"first": ["first.weight", "first.bias"]}
    slopes.verdicts = {"first": Verdict(error, predicted=1.0, noise=1e-5)}
    slopes.shares = {"first": {"first.weight": 0.9994, "first.bias": 0.0006}}
    judge_blocks(slopes)
    assert [name for f in slopes.flow.exam.findings for name in f.parameters] == unseen

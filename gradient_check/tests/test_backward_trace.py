"""Backward is watched node by node: where a gradient ended, became zero or was spoilt."""

import pytest
import torch
from torch import Tensor, nn

from gradient_check.diagnosis.backward_trace import BackwardTrace, Passage, kind_of
from gradient_check.findings.report import NOWHERE
from gradient_check.instruments.sources import module_names
from gradient_check.tests.flows import subject_of, tower


class Silent(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx, gradient: Tensor) -> None:
        return None


def silent(self: nn.Module, h: Tensor) -> Tensor:
    return Silent.apply(h)


def rounded(self: nn.Module, h: Tensor) -> Tensor:
    return (h * 4).round() / 4


def rooted(self: nn.Module, h: Tensor) -> Tensor:
    return h + (h - h).sqrt()


def place_of(spoil, names: list[str], **what):
    subject = subject_of(tower(spoil))
    trace = BackwardTrace(subject)
    modules = module_names(subject.replica)
    return trace.spoilt(names, modules, **what) if what else trace.stopped(names, modules)


def test_the_custom_function_that_hands_nothing_on_is_placed_at_its_backward() -> None:
    place = place_of(silent, ["first.weight"])
    assert place.module == "blocks.1 (Spoilt)"
    assert "def backward(ctx, gradient: Tensor) -> None:" in place.line


def test_the_call_that_makes_zeros_is_placed_at_its_line() -> None:
    place = place_of(rounded, ["blocks.1.linear.weight"], nonfinite=False)
    assert place.module == "blocks.1 (Spoilt)"
    assert "(h * 4).round() / 4" in place.line


def test_the_call_that_makes_infinity_is_placed_at_its_line() -> None:
    place = place_of(rooted, ["blocks.1.linear.weight"], nonfinite=True)
    assert "(h - h).sqrt()" in place.line


@pytest.mark.parametrize("what", [{}, {"nonfinite": False}, {"nonfinite": True}])
def test_in_a_sound_backward_there_is_no_place(what) -> None:
    assert place_of(None, ["first.weight", "head.bias"], **what) == NOWHERE


@pytest.mark.parametrize(
    ("spoil", "what"),
    [(silent, {}), (rounded, {"nonfinite": False}), (rooted, {"nonfinite": True})],
)
def test_parameters_above_the_fault_have_no_part_in_it(spoil, what) -> None:
    assert place_of(spoil, ["head.weight", "head.bias"], **what) == NOWHERE


def test_the_node_at_fault_is_kept() -> None:
    subject = subject_of(tower(rounded))
    trace = BackwardTrace(subject)
    trace.spoilt(["first.weight"], {}, nonfinite=False)
    assert trace.culprit.name() == "RoundBackward0"


def test_a_subject_that_raises_leaves_an_empty_trace_and_no_recorder() -> None:
    subject = subject_of(tower(), loss=lambda output: 1 / 0)
    trace = BackwardTrace(subject)
    assert trace.order == []
    assert subject.loss.recorder is None
    assert trace.stopped(["first.weight"], {}) == NOWHERE


@pytest.mark.parametrize(
    ("came", "begins"),
    [
        (["fine"], {None, "zero", "nonfinite"}),
        (["fine", None], {None, "zero", "nonfinite"}),
        (["zero"], {"nonfinite"}),
        ([None], {"nonfinite"}),
        (["nonfinite", "fine"], set()),
    ],
)
def test_a_fault_begins_where_what_came_in_was_sound(came, begins) -> None:
    passage = Passage(came)
    assert {bad for bad in (None, "zero", "nonfinite") if passage.may_begin(bad)} == begins


def test_a_gradient_is_none_zero_fine_or_not_finite() -> None:
    assert kind_of(None) is None
    assert kind_of(torch.zeros(3)) == "zero"
    assert kind_of(torch.tensor([0.0, 1e-30])) == "fine"
    assert kind_of(torch.tensor([1.0, float("nan")])) == "nonfinite"
    assert kind_of(torch.tensor([0.0, float("inf")])) == "nonfinite"
    assert kind_of(torch.tensor([0.0, 1.0]).to_sparse()) == "fine"

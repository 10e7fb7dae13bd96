"""Questions about gradients are answered with the module and the line behind a failure."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gradient_check.diagnosis.diagnosis import Diagnosis
from gradient_check.exam.known.hosts import Block, Tower
from gradient_check.findings.report import NOWHERE
from gradient_check.tests.flows import ran, tower
from gradient_check.tests.present import present
from gradient_check.tests.test_backward_trace import Silent
from gradient_check.tests.test_flow import Raising
from gradient_check.tests.test_locality import Tripled

WEIGHT = "blocks.1.linear.weight"


def diagnosis_of(spoil=None, **rest) -> Diagnosis:
    return ran(tower(spoil), **rest).diagnosis


def test_what_cut_parameters_off_is_placed() -> None:
    diagnosis = diagnosis_of(lambda self, h: h.detach())
    place = diagnosis.missing([WEIGHT])
    assert place.module == "blocks.1 (Spoilt)"
    assert "h.detach()" in present(place.line)


def test_a_cut_in_the_loss_is_placed_at_its_line_and_the_parameters_module() -> None:
    diagnosis = diagnosis_of(loss=lambda output: output.detach().pow(2).mean(1))
    place = diagnosis.missing(["head.weight"])
    assert place.module == "head (Linear)"
    assert "output.detach()" in present(place.line)


def test_a_gradient_that_backward_lost_is_placed_at_the_backward() -> None:
    place = diagnosis_of(lambda self, h: Silent.apply(h)).missing([WEIGHT])
    assert "def backward(ctx" in present(place.line)


def test_a_forward_that_raises_has_no_place_for_what_is_missing() -> None:
    assert diagnosis_of(lambda self, h: h.missing).missing([WEIGHT]) == NOWHERE


def test_whether_a_cut_explains_a_missing_gradient() -> None:
    diagnosis = diagnosis_of(lambda self, h: (h > 100).float())
    assert diagnosis.is_cut(WEIGHT)
    assert not diagnosis.is_cut("head.weight")
    assert not diagnosis_of(lambda self, h: h.missing).is_cut(WEIGHT)


@pytest.mark.parametrize(
    ("spoil", "stepped", "gated"),
    [
        (lambda self, h: h.round(), True, False),
        (lambda self, h: torch.sigmoid(h * 1e5 + 1e5), True, False),
        (lambda self, h: torch.relu(h - 100), False, True),
        (lambda self, h: h.clamp(10, 11), False, True),
        (lambda self, h: h * 0, False, False),
        (None, False, False),
    ],
)
def test_where_a_gradient_becomes_zero_is_told(spoil, stepped: bool, gated: bool) -> None:
    diagnosis = diagnosis_of(spoil)
    assert diagnosis.is_stepped(WEIGHT) is stepped
    assert diagnosis.is_gated(WEIGHT) is gated
    assert not diagnosis.is_stepped("head.weight")


def test_what_spoils_gradients_is_placed() -> None:
    place = diagnosis_of(lambda self, h: h.round()).spoilt([WEIGHT], nonfinite=False)
    assert "h.round()" in present(place.line)
    place = diagnosis_of(lambda self, h: h + (h - h).sqrt()).spoilt([WEIGHT], nonfinite=True)
    assert "(h - h).sqrt()" in present(place.line)


def test_a_hook_that_makes_zeros_is_proven_by_leaving_it_out() -> None:
    module = tower()
    module.head.weight.register_hook(lambda gradient: gradient * 0)
    diagnosis = ran(module).diagnosis
    assert "gradient * 0" in present(diagnosis.spoilt(["head.weight"], nonfinite=False).line)
    assert diagnosis.spoilt(["head.weight"], nonfinite=True) == NOWHERE


def test_a_wrong_gradient_is_placed_by_proof_by_module_or_by_suspicion() -> None:
    place = diagnosis_of(lambda self, h: h * h.mean().detach()).wrong([WEIGHT])
    assert "h.mean().detach()" in present(place.line)
    place = diagnosis_of(lambda self, h: Tripled.apply(h)).wrong([WEIGHT])
    assert place.module == "blocks.1 (Spoilt)"
    assert "def backward(ctx" in present(place.line)

    def clipped(self: Any, h: Tensor) -> Tensor:
        return h * torch.tensor(h.abs().mean().item())

    place = diagnosis_of(clipped).wrong([WEIGHT])
    assert place.module == "blocks.1 (Spoilt)"
    assert ".item()" in present(place.line)


def test_an_error_of_backward_is_placed_where_it_was_raised() -> None:
    flow = ran(tower(lambda self, h: Raising.apply(h)))
    assert "raise ValueError" in present(
        flow.diagnosis.backward_raised(present(flow.backward_error)).line
    )


def test_a_write_to_a_saved_tensor_is_placed_at_the_write() -> None:
    def overwriting(self: Any, h: Tensor) -> Tensor:
        kept = torch.sigmoid(h)
        product = kept * kept
        kept.add_(1)
        return product

    flow = ran(tower(overwriting))
    place = flow.diagnosis.backward_raised(present(flow.backward_error))
    assert place.module == "blocks.1 (Spoilt)"
    assert "kept.add_(1)" in present(place.line)


class TooFew(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, scale: Tensor) -> Tensor:
        return x * scale

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        return gradient


def test_a_backward_of_too_few_gradients_is_placed_at_its_definition() -> None:
    class Scaled(Block):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(6))

        def spoil(self, h: Tensor) -> Tensor:
            return TooFew.apply(h, self.scale)

    flow = ran(Tower(Scaled()))
    place = flow.diagnosis.backward_raised(present(flow.backward_error))
    assert "def backward(ctx, gradient: Tensor) -> Tensor:" in present(place.line)


def test_a_backward_inside_the_loss_is_placed() -> None:
    def inside(output: Tensor) -> Tensor:
        losses = output.pow(2).mean(1)
        losses.mean().backward()
        return losses

    flow = ran(tower(), loss=inside)
    place = flow.diagnosis.backward_raised(present(flow.backward_error))
    assert "losses.mean().backward()" in present(place.line)

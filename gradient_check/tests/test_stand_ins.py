"""Stops of a forward are found by kind; while they are held, gradients are exact slopes."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gradient_check import check_gradients
from gradient_check.diagnosis import stand_ins as module_under_test
from gradient_check.diagnosis.stand_ins import StandIns, find_stand_ins
from gradient_check.instruments.declared import DeclaredStops
from gradient_check.instruments.sources import module_names
from gradient_check.tests.flows import ran, tower
from gradient_check.tests.present import present


def found(spoil: Any, *declared: str) -> StandIns:
    subject = ran(tower(spoil)).subject
    return find_stand_ins(subject, module_names(subject.replica), DeclaredStops(declared))


class Compared(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return (x > 0).float()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


@pytest.mark.parametrize(
    ("spoil", "line"),
    [
        (lambda self, h: h + (h.round() - h).detach(), "(h.round() - h).detach()"),
        (lambda self, h: (h > 0).float() + h - h.detach(), "h - h.detach()"),
        (lambda self, h: h.round().detach() - h.detach() + h, "h.round().detach() - h.detach()"),
        (lambda self, h: Compared.apply(h), "(x > 0).float()"),
    ],
)
def test_a_straight_through_estimator_is_found(spoil: Any, line: str) -> None:
    stops = found(spoil)
    assert stops
    assert line in present(stops.surrogates[0].line)


def test_a_detached_operand_of_one_belongs_to_it() -> None:
    def quantised(self: Any, h: Tensor) -> Tensor:
        q = h.round()
        return h + (q - h).detach() + (h - q.detach()).square() * 0.1

    assert len(found(quantised).constant) == 2


def test_of_one_spelt_with_two_detached_parts_both_are_held_and_of_no_step_none() -> None:
    assert len(found(lambda self, h: h.round().detach() - h.detach() + h).constant) == 2
    assert not found(lambda self, h: h.exp().detach() - h.detach() + h)
    assert not found(lambda self, h: h.round().detach() - h.detach() + 2 * h)


def cut(self: Any, h: Tensor) -> Tensor:
    return h * h.mean(-1, keepdim=True).detach()


def test_a_stop_of_the_users_counts_only_where_it_is_declared() -> None:
    assert not found(cut)
    assert len(found(cut, r"blocks\.1").declared) == 1
    assert len(found(cut, ".detach()").declared) == 1
    assert not found(cut, "elsewhere")


def test_a_stop_of_a_library_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module_under_test, "is_library_file", lambda path: True)
    stops = found(cut)
    assert len(stops.libraries) == 1
    assert stops.places == stops.libraries


def test_held_values_stay_while_parameters_move() -> None:
    stops = found(cut, ".detach()")
    subject = stops.subject
    weight = subject.parameters["blocks.1.linear.weight"]
    gradient = present(weight.grad)

    def change() -> float:
        with torch.no_grad():
            weight.add_(gradient, alpha=1e-2)
            above = subject.forward()
            weight.sub_(gradient, alpha=2e-2)
            below = subject.forward()
            weight.add_(gradient, alpha=1e-2)
        return (above - below) / 2e-2

    slope = float(gradient.square().sum())
    assert change() != pytest.approx(slope, rel=0.05)
    with stops.held():
        assert change() == pytest.approx(slope, rel=1e-2)
    assert subject.loss.recorder is None


def test_the_vectors_of_old_spectral_norm_are_a_librarys_stop() -> None:
    """They follow the weight by one step of power iteration, which no gradient passes."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.utils.spectral_norm(nn.Linear(5, 8)), nn.Tanh(), nn.Linear(8, 3))
    report = check_gradients(module, torch.randn(6, 5), lambda out: (out - 0.25).square().mean(1))
    assert report.passed
    assert set(report.codes) <= {"stop-gradient", "unverified"}


def test_a_wrong_backward_beside_old_spectral_norm_is_found() -> None:
    class Half(torch.autograd.Function):
        @staticmethod
        def forward(context, values):
            return values.clone()

        @staticmethod
        def backward(context, gradient):
            return 0.5 * gradient

    class Wrong(nn.Module):
        def forward(self, values):
            return Half.apply(values)

    torch.manual_seed(0)
    module = nn.Sequential(nn.utils.spectral_norm(nn.Linear(5, 8)), Wrong(), nn.Linear(8, 3))
    report = check_gradients(module, torch.randn(6, 5), lambda out: (out - 0.25).square().mean(1))
    assert "gradient-wrong" in report.codes

"""An estimator passes with a warning however it is written, and a mistake beside it fails.

Each form has the values of a step and the gradient of something smooth.
"""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gradient_check.check import check_gradients
from gradient_check.exam.known.hosts import rows

Form = Callable[[Tensor], Tensor]


class Choosing(nn.Module):
    """Chooses among five codes for each row."""

    def __init__(self, form: Form, *, is_right: bool = True) -> None:
        super().__init__()
        self.choice, self.scale = nn.Linear(6, 5), nn.Parameter(torch.ones(5))
        self.form, self.is_right = form, is_right

    def forward(self, x: Tensor) -> Tensor:
        scale = self.scale if self.is_right else (self.scale + self.scale.detach()) / 2
        return (self.form(self.choice(x)) * scale - 0.25).square().mean(1)


def hard_of(soft: Tensor) -> Tensor:
    return F.one_hot(soft.argmax(-1), 5).to(soft.dtype)


def minus_plus(h: Tensor) -> Tensor:
    soft = h.softmax(-1)
    return hard_of(soft) - soft.detach() + soft


def soft_first(h: Tensor) -> Tensor:
    soft = h.softmax(-1)
    return soft + hard_of(soft) - soft.data


def negated(h: Tensor) -> Tensor:
    soft = h.softmax(-1)
    return -soft.detach() + soft + hard_of(soft)


def in_functions(h: Tensor) -> Tensor:
    soft = h.softmax(-1)
    return torch.add(torch.sub(hard_of(soft), soft.detach()), soft)


def in_place(h: Tensor) -> Tensor:
    soft = h.softmax(-1)
    gate = torch.zeros_like(soft).scatter(-1, soft.topk(2, -1).indices, 1.0) - soft.detach()
    gate += soft
    return gate


def rounded(h: Tensor) -> Tensor:
    large = 4 * h
    return large.round() - large.detach() + large


def beside_another_term(h: Tensor) -> Tensor:
    soft = h.softmax(-1)
    return h.sin() + hard_of(soft) - soft.detach() + soft


def chosen(h: Tensor) -> Tensor:
    codes = torch.linspace(-1, 1, 9)
    nearest = (h[..., None] - codes).abs().argmin(-1)
    return codes[nearest] - h.detach() + h


FORMS = (
    *(minus_plus, soft_first, negated, in_functions),
    *(in_place, rounded, beside_another_term, chosen),
)


@pytest.mark.parametrize("form", FORMS)
def test_an_estimator_passes_with_a_warning_in_whatever_order_it_is_written(form: Form) -> None:
    torch.manual_seed(0)
    report = check_gradients(Choosing(form), rows(7, 6), lambda y: y)
    assert report.passed
    assert "surrogate" in report.codes


@pytest.mark.parametrize("form", FORMS)
def test_a_mistake_beside_an_estimator_fails(form: Form) -> None:
    torch.manual_seed(0)
    report = check_gradients(Choosing(form, is_right=False), rows(7, 6), lambda y: y)
    (failure,) = (f for f in report.findings if f.level == "FAIL")
    assert failure.code == "gradient-wrong"
    assert failure.parameters == ("scale",)


def of_no_step(h: Tensor) -> Tensor:
    soft = h.softmax(-1)
    return (5 * h).softmax(-1).detach() - soft.detach() + soft


def of_another(h: Tensor) -> Tensor:
    soft = h.softmax(-1)
    return hard_of(soft) - soft.detach() + h.sigmoid()


def of_a_gate(h: Tensor) -> Tensor:
    soft = h.sigmoid()
    return h * (h > 0) - soft.detach() + soft


def of_a_later_step(h: Tensor) -> Tensor:
    soft = h.sigmoid()
    return (h.sin() - soft.detach() + soft) + hard_of(h)


@pytest.mark.parametrize("form", [of_no_step, of_another, of_a_gate, of_a_later_step])
def test_a_stop_that_stands_in_for_no_step_fails(form: Form) -> None:
    torch.manual_seed(0)
    report = check_gradients(Choosing(form), rows(7, 6), lambda y: y)
    assert any(f.code == "gradient-wrong" for f in report.findings if f.level == "FAIL")

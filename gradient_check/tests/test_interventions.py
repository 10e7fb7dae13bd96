"""A culprit is proven by leaving it out; what does no harm is not blamed."""

from typing import Any

import pytest
import torch
from torch import Tensor

from gradient_check.diagnosis.interventions import Interventions
from gradient_check.findings.report import NOWHERE
from gradient_check.instruments.sources import module_names
from gradient_check.tests.flows import ran, tower
from gradient_check.tests.present import present

WEIGHT = "blocks.1.linear.weight"


def cured(module: Any, names: tuple[str, ...] = (WEIGHT,), **rest):
    subject = ran(module, **rest).subject
    return Interventions(subject, module_names(subject.replica)).cure(names)


def cutting(self: Any, h: Tensor) -> Tensor:
    return h * h.mean(-1, keepdim=True).detach()


def through_data(self: Any, h: Tensor) -> Tensor:
    return h * h.data


def hooking(self: Any, h: Tensor) -> Tensor:
    h = h * 2
    if h.requires_grad:
        h.register_hook(lambda gradient: gradient * 0.5)
    return h


@pytest.mark.parametrize(
    ("spoil", "line"),
    [
        (cutting, "return h * h.mean(-1, keepdim=True).detach()"),
        (through_data, "return h * h.data"),
        (hooking, "h.register_hook("),
    ],
)
def test_the_call_without_which_gradients_are_right_is_named(spoil, line: str) -> None:
    place = cured(tower(spoil))
    assert place.module == "blocks.1 (Spoilt)"
    assert line in place.line


def test_a_detach_that_does_no_harm_is_not_blamed() -> None:
    def shifted(self: Any, h: Tensor) -> Tensor:
        low = h - h.max(-1, keepdim=True).values.detach()
        return low.exp() / low.exp().sum(-1, keepdim=True) * h.detach()

    place = cured(tower(shifted))
    assert "* h.detach()" in place.line


def test_the_line_of_a_modules_hook_is_named_and_the_hook_stays() -> None:
    module = tower()

    def scale(part, grad_input, grad_output):
        return (grad_input[0] * 0.3,)

    module.blocks[1].linear.register_full_backward_hook(scale)
    subject = ran(module).subject
    place = Interventions(subject, module_names(subject.replica)).cure(["first.weight"])
    assert place.module == "blocks.1.linear (Linear)"
    assert "grad_input[0] * 0.3" in present(place.line)
    replica: Any = subject.replica
    assert list(replica.blocks[1].linear._backward_hooks.values()) == [scale]


def test_a_pre_hook_of_a_module_is_named() -> None:
    module = tower()
    module.blocks[1].linear.register_full_backward_pre_hook(lambda part, output: (output[0] * 2,))
    place = cured(module, ("first.weight",))
    assert "register_full_backward_pre_hook" in place.line


def test_a_hook_of_a_parameter_is_named() -> None:
    module = tower()
    module.first.weight.register_hook(lambda gradient: gradient * 0.1)
    module.head.weight.register_hook(lambda gradient: gradient * 1.0)
    place = cured(module, ("first.weight",))
    assert place.module == "first (Linear)"
    assert "gradient * 0.1" in place.line


def test_where_leaving_out_helps_nothing_there_is_no_place() -> None:
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 3

    def spoil(self: Any, h: Tensor) -> Tensor:
        return Wrong.apply(h) + h.detach()

    assert cured(tower(spoil)) == NOWHERE


def test_a_call_without_which_the_forward_raises_is_not_blamed() -> None:
    def through_numpy(self: Any, h: Tensor) -> Tensor:
        return h * torch.from_numpy(h.detach().numpy())

    assert cured(tower(through_numpy)) == NOWHERE


def test_gradients_and_recorder_are_as_before() -> None:
    subject = ran(tower(cutting)).subject
    before = {name: p.grad for name, p in subject.parameters.items()}
    Interventions(subject, {}).cure([WEIGHT])
    assert all(p.grad is before[name] for name, p in subject.parameters.items())
    assert subject.loss.recorder is None


def test_a_part_that_still_gets_no_gradient_is_not_cured() -> None:
    def halves(self: Any, h: Tensor) -> Tensor:
        kept = h.split(3, -1)[0].clone()
        kept.register_hook(lambda gradient: gradient * 0) if kept.requires_grad else None
        return torch.cat([kept, h[:, 3:] * h[:, 3:].detach()], -1)

    place = cured(tower(halves), ("blocks.1.linear.bias",))
    assert place == NOWHERE


def test_one_hook_on_many_parameters_is_left_out_as_one() -> None:
    module = tower()
    for parameter in module.parameters():
        parameter.register_hook(lambda gradient: gradient.sign())
    place = cured(module, tuple(name for name, _ in module.named_parameters()))
    assert "gradient.sign()" in present(place.line)

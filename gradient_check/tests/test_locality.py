"""The innermost module whose own gradient disagrees with its own differences is the culprit."""

import torch
from torch import Tensor, nn

from gradient_check.diagnosis.locality import innermost_wrong
from gradient_check.exam.known.hosts import Block, Tower
from gradient_check.findings.report import NOWHERE
from gradient_check.instruments.sources import module_names
from gradient_check.tests.flows import ran, sgd, tower
from gradient_check.tests.present import present


class Tripled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        return gradient * 3


class WrongWeight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return x * weight

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        return gradient * weight, (gradient * x).sum(0) * 2


class Inner(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return Tripled.apply(x)


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(6))

    def forward(self, x: Tensor) -> Tensor:
        return WrongWeight.apply(x, self.weight)


class Outer(Block):
    """Holds the part at fault, and sound ones."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part = part

    def spoil(self, h: Tensor) -> Tensor:
        return self.part(h)


def culprit(module: nn.Module):
    subject = ran(module, make_optimizer=sgd()).subject
    return innermost_wrong(subject, module_names(subject.replica))


def test_the_innermost_module_is_named_with_its_backward() -> None:
    place = culprit(Tower(Outer(Inner())))
    assert place.module == "blocks.1.part (Inner)"
    assert "def backward(ctx, gradient: Tensor) -> Tensor:" in place.line


def test_a_wrong_gradient_of_a_weight_is_found_where_that_of_the_input_is_right() -> None:
    place = culprit(Tower(Outer(Scaled())))
    assert place.module == "blocks.1.part (Scaled)"
    assert "tuple[Tensor, Tensor]" in place.line


def test_a_module_that_cuts_a_part_of_its_input_is_named_without_a_line() -> None:
    def cut(self: nn.Module, h: Tensor) -> Tensor:
        return torch.cat([h[:, :3].detach(), h[:, 3:]], 1)

    place = culprit(tower(cut))
    assert place.module == "blocks.1 (Spoilt)"
    assert place.line is None


def test_where_every_module_is_right_the_only_custom_function_is_suspected() -> None:
    module = tower()
    subject = ran(module, loss=lambda output: Tripled.apply(output).pow(2).sum(1)).subject
    place = innermost_wrong(subject, module_names(subject.replica))
    assert place.module is None
    assert "def backward(ctx, gradient: Tensor) -> Tensor:" in present(place.line)
    assert subject.loss.observer is None


def test_a_sound_model_has_no_culprit_and_keeps_no_hooks() -> None:
    subject = ran(tower()).subject
    assert innermost_wrong(subject, module_names(subject.replica)) == NOWHERE
    assert not any(part._forward_hooks for part in subject.replica.modules())


def test_two_custom_functions_prove_nothing() -> None:
    def loss(output: Tensor) -> Tensor:
        return (Tripled.apply(output) + WrongWeight.apply(output, torch.ones(2))).pow(2).sum(1)

    subject = ran(tower(), loss=loss).subject
    assert innermost_wrong(subject, module_names(subject.replica)) == NOWHERE


def test_integer_inputs_and_named_ones_are_passed_on() -> None:
    class Picking(nn.Module):
        def forward(self, h: Tensor, *, index: Tensor) -> Tensor:
            return Tripled.apply(h[:, index])

    class Calling(Block):
        def __init__(self) -> None:
            super().__init__()
            self.part = Picking()

        def spoil(self, h: Tensor) -> Tensor:
            return self.part(h, index=torch.arange(6))

    assert culprit(Tower(Calling())).module == "blocks.1.part (Picking)"

"""Faults near the thresholds: small, rare, or hidden behind something that is allowed."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional as F

from gradient_check.exam.case import Case, Questions, numbers, rows

questions = Questions("adversarial")
VALUES = rows(6, 8)


class Scaled(Function):
    """The identity, with a gradient that is scaled by a factor."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return values.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient * ctx.factor, None


class Layer(nn.Module):
    """A residual layer; `change` may be replaced."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, values: Tensor) -> Tensor:
        return values + self.change(torch.tanh(self.linear(values)))

    def change(self, values: Tensor) -> Tensor:
        return values


def stack(*layers: nn.Module) -> nn.Sequential:
    """Return healthy layers round these, and a head."""
    return nn.Sequential(Layer(), *layers, Layer(), nn.Linear(8, 3))


def wrong_by(factor: float) -> Case:
    """Return a case whose middle layer has a gradient that is scaled."""

    class Part(Layer):
        def change(self, values: Tensor) -> Tensor:
            return Scaled.apply(values, factor)  # of the residual branch only

    return Case(stack(Layer(), Part(), Layer()), VALUES)


@questions.fault("gradient-wrong")
def a_branch_is_wrong_by_a_fifth() -> Case:
    return wrong_by(0.8)


@questions.fault("gradient-wrong")
def a_branch_is_wrong_by_a_twentieth() -> Case:
    return wrong_by(1.05)


@questions.fault("gradient-wrong")
def a_branch_is_wrong_by_a_fiftieth() -> Case:
    return wrong_by(0.98)


@questions.fault("gradient-wrong")
def a_whole_trunk_is_wrong_by_a_fiftieth() -> Case:
    class Part(nn.Module):
        def forward(self, values: Tensor) -> Tensor:
            return Scaled.apply(values, 1.02)

    return Case(nn.Sequential(nn.Linear(8, 8), nn.Tanh(), Part(), nn.Linear(8, 3)), VALUES)


@questions.fault("gradient-wrong")
def one_channel_of_many_is_wrong() -> Case:
    net = stack(Layer())

    def hook(gradient: Tensor) -> Tensor:  # the fault
        gradient = gradient.clone()
        gradient[3] *= 0.5  # fault
        return gradient

    net[1].linear.weight.register_hook(hook)  # fault
    return Case(net, VALUES)


@questions.fault("gradient-wrong")
def one_row_of_an_embedding_is_wrong() -> Case:
    net = nn.Sequential(nn.Embedding(12, 8), Layer(), nn.Linear(8, 3))

    def hook(gradient: Tensor) -> Tensor:  # the fault
        factor = torch.ones(12, 1)
        factor[5] = 0.0
        return gradient * factor  # fault

    net[0].weight.register_hook(hook)  # fault
    return Case(net, torch.tensor([[1, 2, 3, 5], [4, 6, 7, 8]]))


@questions.fault("gradient-wrong")
def one_head_of_eight_is_detached() -> Case:
    class Part(Layer):
        def change(self, values: Tensor) -> Tensor:
            heads = list(values.split(1, -1))
            heads[2] = heads[2].detach()  # fault
            return torch.cat(heads, -1)

    return Case(stack(Part()), VALUES)


@questions.fault("gradient-wrong")
def one_example_of_the_batch_is_detached() -> Case:
    class Part(Layer):
        def change(self, values: Tensor) -> Tensor:
            return torch.cat((values[:-1], values[-1:].detach()))  # fault

    return Case(stack(Part()), VALUES)


@questions.fault("gradient-wrong")
def one_step_of_six_is_detached() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.out = nn.RNNCell(8, 8), nn.Linear(8, 2)

        def forward(self, values: Tensor) -> Tensor:
            state = torch.zeros_like(values)
            for number in range(6):
                state = self.cell(values, state.detach() if number == 2 else state)  # fault
            return self.out(state)

    return Case(Net(), VALUES)


@questions.fault("gradient-wrong")
def a_weak_auxiliary_path_is_detached() -> Case:
    class Part(Layer):
        def change(self, values: Tensor) -> Tensor:
            return values + 0.05 * values.detach().square()  # fault

    return Case(stack(Part()), VALUES)


@questions.fault("gradient-wrong")
def the_mean_of_an_own_layer_norm_is_detached() -> Case:
    class Part(Layer):
        def change(self, values: Tensor) -> Tensor:
            centred = values - values.mean(-1, keepdim=True).detach()  # fault
            return centred / (values.var(-1, keepdim=True) + 1e-2).sqrt()

    return Case(stack(Part()), VALUES)


@questions.fault("gradient-wrong")
def the_maximum_of_an_own_normalization_is_detached() -> Case:
    class Part(Layer):
        def change(self, values: Tensor) -> Tensor:
            return values / (values.abs().amax(-1, keepdim=True).detach() + 1)  # fault

    return Case(stack(Part()), VALUES)


class Rounded(Function):
    """Rounding with the slope of the identity: a straight-through estimator."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        return (values * 4).round() / 4

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


@questions.fault("gradient-wrong")
def label_smoothing_detaches_the_other_classes() -> Case:
    labels = numbers(3, 6)

    def loss(logits: Tensor) -> Tensor:
        hard = F.cross_entropy(logits, labels, reduction="none")
        return 0.95 * hard - 0.05 * logits.detach().log_softmax(1).mean(1)  # fault

    return Case(stack(), VALUES, loss)


@questions.fault("gradient-wrong")
def a_detached_weight_of_one_of_three_losses() -> Case:
    def loss(output: Tensor) -> Tensor:
        first, second, third = output.square().unbind(1)
        return first + second + third * (third / (first + third + 1)).detach()  # fault

    return Case(stack(), VALUES, loss)

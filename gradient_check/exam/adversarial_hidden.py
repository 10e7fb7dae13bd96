"""Faults behind something that is allowed, or that shows itself at times only."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function

from gradient_check.exam.adversarial import VALUES, Layer, Rounded, Scaled, stack
from gradient_check.exam.case import Case, Questions, off_target, rows

questions = Questions("adversarial")


@questions.fault("gradient-wrong")
def a_fault_before_a_straight_through_estimator() -> Case:
    class Part(nn.Module):
        def forward(self, values: Tensor) -> Tensor:
            return values + (Rounded.apply(values) - values)

    class Wrong(Layer):
        def change(self, values: Tensor) -> Tensor:
            return Scaled.apply(values, 2.0)

    return Case(nn.Sequential(Layer(), Wrong(), Layer(), Part(), nn.Linear(8, 3)), VALUES)


@questions.fault("gradient-wrong", "graph-cut")
def a_detach_beside_a_vector_quantization() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.decoder = nn.Linear(8, 4), nn.Linear(4, 8)
            self.side, self.codes = nn.Linear(8, 4), nn.Parameter(rows(5, 4))

        def forward(self, values: Tensor) -> Tensor:
            latent = self.encoder(values).tanh()
            code = self.codes[torch.cdist(latent, self.codes).argmin(1)]
            straight = latent + (code - latent).detach()
            commit = (code - latent).square().mean(1)
            side = self.side(values).detach().tanh()  # fault
            return (self.decoder(straight + side) - values).square().mean(1) + commit

    return Case(Net(), VALUES, lambda losses: losses)


@questions.fault("gradient-wrong", "graph-cut")
def a_fault_behind_a_small_layer_scale() -> Case:
    class Part(Layer):
        def change(self, values: Tensor) -> Tensor:
            return 1e-2 * Scaled.apply(values, 3.0)

    return Case(stack(Part()), VALUES)


@questions.hidden("1.linear.weight")
def a_fault_behind_a_tiny_layer_scale() -> Case:
    class Part(Layer):
        def change(self, values: Tensor) -> Tensor:
            return 1e-6 * Scaled.apply(values, 3.0)

    return Case(stack(Part()), VALUES)


@questions.hidden("0.weight")
def a_fault_before_saturated_sigmoids() -> Case:
    class Part(nn.Module):
        def forward(self, values: Tensor) -> Tensor:
            return Scaled.apply((values * 0.1 + 16).sigmoid(), 5.0)

    return Case(nn.Sequential(nn.Linear(8, 8), Part(), nn.Linear(8, 3)), VALUES)


@questions.fault("grad-zero", "dead", "nothing-trainable", "flat")
def both_factors_of_a_low_rank_change_begin_at_zero() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.base = nn.Linear(8, 3)
            self.down, self.up = nn.Parameter(torch.zeros(2, 8)), nn.Parameter(torch.zeros(3, 2))

        def forward(self, values: Tensor) -> Tensor:
            return self.base(values) + values @ self.down.T @ self.up.T

    return Case(Net(), VALUES, options={"trainable": "down|up"})


@questions.fault("gradient-wrong")
def a_bfloat16_trunk_is_wrong_by_a_half() -> Case:
    class Part(nn.Module):
        def forward(self, values: Tensor) -> Tensor:
            return Scaled.apply(values, 0.5)

    net = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), Part(), nn.Linear(8, 3)).bfloat16()
    return Case(net, VALUES.bfloat16())


@questions.fault("gradient-wrong")
def a_hook_clips_the_largest_entries() -> Case:
    net = stack(Layer())

    def clip(gradient: Tensor) -> Tensor:  # the fault
        return gradient.clamp(-(limit := float(gradient.abs().quantile(0.9))), limit)  # fault

    net[1].linear.weight.register_hook(clip)  # fault
    return Case(net, VALUES)


@questions.fault("gradient-wrong")
def a_hook_adds_noise() -> Case:
    net = stack(Layer())

    def blur(gradient: Tensor) -> Tensor:  # the fault
        return gradient + 0.3 * gradient.std() * torch.randn_like(gradient)  # fault

    net[1].linear.weight.register_hook(blur)  # fault
    return Case(net, VALUES)


@questions.fault("gradient-wrong")
def a_hook_replaces_each_gradient_by_its_sign() -> Case:
    net = stack(Layer())
    for parameter in net.parameters():
        parameter.register_hook(lambda gradient: gradient.sign() * gradient.abs().mean())  # fault
    return Case(net, VALUES)


@questions.fault("gradient-wrong", "graph-cut")
def a_detach_from_the_fourth_forward_on() -> Case:
    class Part(Layer):
        calls = 0

        def change(self, values: Tensor) -> Tensor:
            self.calls += 1
            return values.detach() if self.calls > 3 else values  # fault

    return Case(stack(Part()), VALUES)


@questions.fault("gradient-wrong", "graph-cut")
def a_detach_on_large_batches_only() -> Case:
    class Part(Layer):
        def change(self, values: Tensor) -> Tensor:
            return values.detach() if len(values) > 4 else values  # fault

    return Case(stack(Part()), VALUES)


@questions.fault("gradient-wrong", "graph-cut", "grad-zero")
def values_are_kept_to_three_decimals() -> Case:
    class Part(Layer):
        def change(self, values: Tensor) -> Tensor:
            return torch.round(values, decimals=3)  # fault

    return Case(stack(Part()), VALUES)


@questions.fault("gradient-wrong")
def gradients_are_given_to_the_wrong_examples() -> Case:
    class Rolled(Function):
        @staticmethod
        def forward(ctx: Any, values: Tensor) -> Tensor:
            return values.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:  # the fault
            return gradient.roll(1, 0)  # fault

    class Part(Layer):
        def change(self, values: Tensor) -> Tensor:
            return Rolled.apply(values)

    return Case(stack(Part()), VALUES)


@questions.fault("gradient-wrong")
def two_equal_experts_get_each_others_gradient() -> Case:
    class Crossed(Function):
        @staticmethod
        def forward(ctx: Any, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
            return left.clone(), right.clone()

        @staticmethod
        def backward(ctx: Any, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:  # the fault
            return right, left  # fault

    class Part(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.left, self.right = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, values: Tensor) -> Tensor:
            left, right = Crossed.apply(self.left(values), self.right(values))
            return left.tanh() + right.sin()

    return Case(stack(Part()), VALUES)


@questions.fault("gradient-wrong", "grad-zero")
def one_scalar_among_thousands_has_the_wrong_sign() -> Case:
    class Part(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gain = nn.Parameter(torch.tensor(0.7))

        def forward(self, values: Tensor) -> Tensor:
            return values * Scaled.apply(self.gain, -1.0)

    return Case(nn.Sequential(nn.Linear(8, 500), nn.Tanh(), Part(), nn.Linear(500, 3)), VALUES)


@questions.fault("gradient-wrong")
def a_small_model_in_float64_is_wrong_by_a_thousandth() -> Case:
    class Part(nn.Module):
        def forward(self, values: Tensor) -> Tensor:
            return Scaled.apply(values, 0.999)

    net = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), Part(), nn.Linear(8, 3)).double()
    return Case(net, VALUES.double())


@questions.fault("gradient-wrong")
def a_deep_net_is_wrong_by_a_little_at_each_of_twenty_layers() -> Case:
    class Part(Layer):
        def change(self, values: Tensor) -> Tensor:
            return 0.3 * Scaled.apply(values, 0.97)

    return Case(nn.Sequential(*[Part() for _ in range(20)], nn.Linear(8, 3)), VALUES, off_target)

"""Faults of own autograd Functions, of hooks, and of writes in place."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function

from gradient_check.exam.case import Case, Questions, rows

questions = Questions("faults")
VALUES = rows(4, 6)


class Sandwich(nn.Module):
    """Two linear layers with a part between them."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.before, self.part, self.after = nn.Linear(6, 6), part, nn.Linear(6, 3)

    def forward(self, values: Tensor) -> Tensor:
        return self.after(torch.tanh(self.part(self.before(values))))


def applied(function: Any) -> Case:
    """Return a case with a Function between two layers."""

    class Part(nn.Module):
        def forward(self, values: Tensor) -> Tensor:
            return function.apply(values)

    return Case(Sandwich(Part()), VALUES)


@questions.fault("gradient-wrong")
def a_backward_forgets_a_factor() -> Case:
    class Triple(Function):
        @staticmethod
        def forward(ctx: Any, values: Tensor) -> Tensor:
            return values * 3

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:  # the fault
            return gradient  # fault

    return applied(Triple)


@questions.fault("gradient-wrong")
def a_backward_has_the_slope_of_another_function() -> Case:
    class Swish(Function):
        @staticmethod
        def forward(ctx: Any, values: Tensor) -> Tensor:
            ctx.save_for_backward(values)
            return values * values.sigmoid()

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:  # the fault
            (values,) = ctx.saved_tensors
            return gradient * values.sigmoid()  # fault

    return applied(Swish)


@questions.fault("gradient-wrong")
def a_backward_returns_the_inputs_gradients_swapped() -> Case:
    class Product(Function):
        @staticmethod
        def forward(ctx: Any, left: Tensor, right: Tensor) -> Tensor:
            ctx.save_for_backward(left, right)
            return left * right

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:  # the fault
            left, right = ctx.saved_tensors
            return gradient * left, gradient * right  # fault

    class Part(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Linear(6, 6)

        def forward(self, values: Tensor) -> Tensor:
            return Product.apply(values, self.gate(values))

    return Case(Sandwich(Part()), VALUES)


@questions.fault("grad-none", "graph-cut")
def a_backward_drops_the_bias() -> Case:
    class Affine(Function):
        @staticmethod
        def forward(ctx: Any, values: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
            ctx.save_for_backward(values, weight)
            return values @ weight.T + bias

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:  # the fault
            values, weight = ctx.saved_tensors
            return gradient @ weight, gradient.T @ values, None  # fault

    class Part(nn.Linear):
        def forward(self, values: Tensor) -> Tensor:
            return Affine.apply(values, self.weight, self.bias)

    return Case(Sandwich(Part(6, 6)), VALUES)


@questions.fault("gradient-wrong")
def a_backward_transposes_a_square_weight() -> Case:
    class Square(Function):
        @staticmethod
        def forward(ctx: Any, values: Tensor, weight: Tensor) -> Tensor:
            ctx.save_for_backward(values, weight)
            return values @ weight

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:  # the fault
            values, weight = ctx.saved_tensors
            return gradient @ weight, values.T @ gradient  # fault

    class Part(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(rows(6, 6) / 2)

        def forward(self, values: Tensor) -> Tensor:
            return Square.apply(values, self.weight)

    return Case(Sandwich(Part()), VALUES)


@questions.fault("gradient-wrong")
def a_backward_masks_the_wrong_side() -> Case:
    class Cap(Function):
        @staticmethod
        def forward(ctx: Any, values: Tensor) -> Tensor:
            ctx.save_for_backward(values)
            return values.clamp(max=0.2)

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:  # the fault
            (values,) = ctx.saved_tensors
            return gradient * (values > 0.2)  # fault

    return applied(Cap)


@questions.fault("gradient-wrong")
def a_backward_writes_to_a_shared_gradient() -> Case:
    class Threshold(Function):
        @staticmethod
        def forward(ctx: Any, values: Tensor) -> Tensor:
            ctx.save_for_backward(values)
            return values.clamp(min=0)

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:  # the fault
            (values,) = ctx.saved_tensors
            return gradient.mul_(values > 0)  # fault

    class Part(nn.Module):
        def forward(self, values: Tensor) -> Tensor:
            return Threshold.apply(values) + values

    return Case(Sandwich(Part()), VALUES)


@questions.fault("graph-cut")
def an_output_is_marked_as_not_differentiable() -> Case:
    class Both(Function):
        @staticmethod
        def forward(ctx: Any, values: Tensor) -> tuple[Tensor, Tensor]:
            ctx.save_for_backward(values)
            mean = values.mean(1, keepdim=True)
            ctx.mark_non_differentiable(mean)  # fault
            return values.exp(), mean

        @staticmethod
        def backward(ctx: Any, gradient: Tensor, _: Tensor) -> Tensor:
            return gradient * ctx.saved_tensors[0].exp()

    class Part(nn.Module):
        def forward(self, values: Tensor) -> Tensor:
            return Both.apply(values)[1].expand(-1, 6)  # fault

    return Case(Sandwich(Part()), VALUES)


@questions.fault("backward")
def a_backward_returns_one_gradient_for_two_inputs() -> Case:
    class Scale(Function):
        @staticmethod
        def forward(ctx: Any, values: Tensor, factor: float) -> Tensor:
            ctx.factor = factor
            return values * factor

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:  # the fault
            return gradient * ctx.factor

    class Part(nn.Module):
        def forward(self, values: Tensor) -> Tensor:
            return Scale.apply(values, 2.0)  # fault

    return Case(Sandwich(Part()), VALUES)


@questions.fault("gradient-wrong")
def a_gradient_is_scaled_by_a_function_as_in_detection() -> Case:
    class Scale(Function):
        @staticmethod
        def forward(ctx: Any, values: Tensor) -> Tensor:
            return values.view_as(values)

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:  # the fault
            return gradient * 0.1  # fault

    return applied(Scale)

"""Open cases of custom autograd functions and hooks, part b."""

from collections import OrderedDict
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function

from gradient_check.exam.case import Case, Questions, numbers, rows

questions = Questions("functions")


@questions.fault("gradient-wrong")
def transposition_undone_by_a_reshape() -> Case:
    class Transposed(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x.transpose(-1, -2).contiguous()

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            wide, high = grad.shape[-2:]
            return grad.reshape(*grad.shape[:-2], high, wide)  # fault: transpose, not reshape

    class Mixer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.channels, self.tokens, self.out = nn.Linear(6, 6), nn.Linear(4, 4), nn.Linear(6, 2)

        def forward(self, x: Tensor) -> Tensor:
            turned = Transposed.apply(torch.tanh(self.channels(x)))  # fault in its backward
            return self.out(self.tokens(turned).transpose(-1, -2))

    return Case(Mixer(), rows(5, 4, 6))


@questions.healthy()
def linear_function_for_any_leading_axes() -> Case:
    class Linear(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
            ctx.save_for_backward(x, weight)
            return x @ weight.t() + bias

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            x, weight = ctx.saved_tensors
            flat = grad.reshape(-1, grad.shape[-1])
            return grad @ weight, flat.t() @ x.reshape(-1, x.shape[-1]), flat.sum(0)

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(rows(8, 4, seed=1) * 0.4)
            self.bias = nn.Parameter(torch.zeros(8))

        def forward(self, x: Tensor) -> Tensor:
            return Linear.apply(x.transpose(0, 1), self.weight, self.bias).transpose(0, 1)

    return Case(nn.Sequential(Layer(), nn.Tanh(), nn.Linear(8, 2)), rows(5, 3, 4))


@questions.fault("graph-cut")
def weight_left_out_where_the_input_needs_nothing() -> Case:
    class Linear(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
            ctx.save_for_backward(x, weight)
            return x @ weight.t()

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
            x, weight = ctx.saved_tensors
            if not ctx.needs_input_grad[0]:
                return None, None  # fault: the first layer's weight needs one
            return grad @ weight, grad.t() @ x

    class Layer(nn.Module):
        def __init__(self, inputs: int, outputs: int) -> None:
            super().__init__()
            self.weight = nn.Parameter(rows(outputs, inputs, seed=1) * 0.4)

        def forward(self, x: Tensor) -> Tensor:
            return Linear.apply(x, self.weight)  # fault in its backward

    return Case(nn.Sequential(Layer(4, 8), nn.Tanh(), Layer(8, 2)), rows(6, 4))


@questions.healthy("rough")
def multiplication_in_bfloat16_with_float32_sums() -> Case:
    class LowLinear(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            low = x.bfloat16() @ self.weight.bfloat16().t()
            return low.to(x.dtype) + self.bias

    return Case(nn.Sequential(LowLinear(8, 16), nn.Tanh(), nn.Linear(16, 3)), rows(16, 8))


@questions.fault("gradient-wrong")
def activation_wrong_in_bfloat16_alone() -> Case:
    class QuickGelu(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x * torch.sigmoid(1.702 * x)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            (x,) = ctx.saved_tensors
            gate = torch.sigmoid(1.702 * x)
            if x.dtype == torch.bfloat16:
                return grad * gate * (1 - gate)  # fault: the slope of the gate, not of x times it
            return grad * (gate + 1.702 * x * gate * (1 - gate))

    class Mlp(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 3)

        def forward(self, x: Tensor) -> Tensor:
            hidden = QuickGelu.apply((2 * self.up(x)).bfloat16())  # fault in its backward
            return self.down(hidden.to(x.dtype))

    return Case(Mlp(), rows(16, 8))


@questions.healthy()
def circulant_layer_by_fourier_transform() -> Case:
    class Circulant(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, kernel: Tensor) -> Tensor:
            ctx.save_for_backward(x, kernel)
            return torch.fft.irfft(torch.fft.rfft(x) * torch.fft.rfft(kernel), n=x.shape[-1])

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
            x, kernel = ctx.saved_tensors
            size, g = x.shape[-1], torch.fft.rfft(grad)
            for_x = torch.fft.irfft(g * torch.fft.rfft(kernel).conj(), n=size)
            return for_x, torch.fft.irfft(g * torch.fft.rfft(x).conj(), n=size).sum(0)

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kernel = nn.Parameter(rows(8, seed=1) * 0.4)

        def forward(self, x: Tensor) -> Tensor:
            return Circulant.apply(x, self.kernel)

    return Case(nn.Sequential(nn.Linear(4, 8), Layer(), nn.Tanh(), nn.Linear(8, 2)), rows(6, 4))


@questions.fault("gradient-wrong", "graph-cut")
def fixed_point_with_the_gradient_of_its_last_step() -> Case:
    class Equilibrium(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inp, self.out = nn.Linear(4, 6), nn.Linear(6, 2)
            self.weight = nn.Parameter(rows(6, 6, seed=1) * 0.25)

        def step(self, state: Tensor, x: Tensor) -> Tensor:
            return torch.tanh(state @ self.weight.t() + x)

        def forward(self, x: Tensor) -> Tensor:
            injected = self.inp(x)
            state = torch.zeros_like(injected)
            with torch.no_grad():  # fault: the implicit solve is missing
                for _ in range(60):
                    state = self.step(state, injected)  # fault shows here
            return self.out(self.step(state, injected))

    return Case(Equilibrium(), rows(6, 4))


@questions.healthy()
def gradient_reversal_declared() -> Case:
    class Reverse(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
            ctx.factor = factor
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
            return -ctx.factor * grad, None

    class Reversal(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return Reverse.apply(x, 0.5)

    class Dann(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.label = nn.Linear(4, 8), nn.Linear(8, 3)
            self.domain = nn.Sequential(OrderedDict(reverse=Reversal(), out=nn.Linear(8, 2)))

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            hidden = torch.tanh(self.body(x))
            return self.label(hidden), self.domain(hidden)

    labels, domains = numbers(3, 8), torch.arange(8) % 2

    def loss(output: tuple[Tensor, Tensor]) -> Tensor:
        return F.cross_entropy(output[0], labels) + F.cross_entropy(output[1], domains)

    options = {"reversed_gradients": {r"domain\.reverse": -0.5}}
    return Case(Dann(), rows(8, 4), loss, options)


@questions.fault("graph-cut")
def feature_hook_that_returns_a_detached_output() -> Case:
    class Features(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inp, self.out = nn.Linear(4, 8), nn.Linear(8, 2)
            self.kept: dict[str, Tensor] = {}
            self.inp.register_forward_hook(self.keep)

        def keep(self, module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
            self.kept["inp"] = output.detach()  # fault: kept and given on alike
            return self.kept["inp"]

        def forward(self, x: Tensor) -> Tensor:
            return self.out(torch.tanh(self.inp(x)))  # fault within a hook

    return Case(Features(), rows(6, 4))


@questions.healthy()
def spectral_norm_from_the_singular_value() -> Case:
    class Spectral(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return F.linear(x, self.weight / torch.linalg.matrix_norm(self.weight, 2), self.bias)

    return Case(nn.Sequential(Spectral(4, 6), nn.Tanh(), Spectral(6, 2)), rows(8, 4))

"""Faults in a convolutional net that leave the graph whole, and its gradients wrong."""

import torch
from torch import nn
from torch.nn import functional as F

from gradient_check.exam.case import ModuleQuestions
from gradient_check.exam.known.hosts import IMAGES, Conv, squares

questions = ModuleQuestions("convolutions, wrong values", Conv, "mid", probe=IMAGES, loss=squares)
conv = questions.faulty_part
fault = questions.faulty


@conv("grad-zero")
class BadSTE(nn.Module):
    def forward(self, x):
        return (x * 8).round() / 8 + x - x.clone()


@conv("grad-zero", "floor")
class Floor(nn.Module):
    def forward(self, x):
        return torch.floor(x * 16) / 16


@conv("gradient-wrong", ".detach()")
class ScaleCut(nn.Module):
    def forward(self, x):
        return x / x.std().detach()


@conv("gradient-wrong", ".item()")
class ItemScale(nn.Module):
    def forward(self, x):
        return x * x.abs().mean().item()


@conv("gradient-wrong", "no_grad")
class DecoratedGate(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Conv2d(8, 8, 1)

    @torch.no_grad()
    def gate(self, x):
        return torch.sigmoid(self.inner(x))

    def forward(self, x):
        return x * self.gate(x) + 0.1 * self.inner(x)


class ScaleFlipped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.scale = scale
        return x * scale

    @staticmethod
    def backward(ctx, g):
        return g.flip(-1) * ctx.scale, None


@conv("gradient-wrong", "def backward")
class Flipped(nn.Module):
    def forward(self, x):
        return ScaleFlipped.apply(x, 2.0)


class LinearWithoutWeightGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return F.linear(x, weight)

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        return g @ weight, None


class CustomLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 8) * 0.3)

    def forward(self, x):
        return LinearWithoutWeightGradient.apply(x.movedim(1, -1), self.weight).movedim(-1, 1)


@fault("grad-none", "mid", "def backward")
def wrong_none():
    return Conv(CustomLinear())


class TanhWithInputsSlope(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.tanh()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (1 - x**2)


@conv("gradient-wrong", "def backward")
class TanhWrong(nn.Module):
    def forward(self, x):
        return TanhWithInputsSlope.apply(x)


@conv("gradient-wrong", "grad_output[0] * 2")
class PreHook(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Conv2d(8, 8, 1)

        def pre(module, grad_output):
            return (grad_output[0] * 2,)

        self.inner.register_full_backward_pre_hook(pre)

    def forward(self, x):
        return self.inner(x)


@conv("grad-zero", "lambda")
class PHook0(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Conv2d(8, 8, 1)
        self.inner.weight.register_hook(lambda g: torch.zeros_like(g))

    def forward(self, x):
        return self.inner(x)


@conv("dead", None, level="WARN")
class Times0(nn.Module):
    def forward(self, x):
        return x * 0 + 1


@conv("grad-nonfinite", None)
class WhereNan(nn.Module):
    def forward(self, x):
        return torch.where(x > 0, x, torch.zeros_like(x)) + torch.where(
            x > 1e9, torch.log(x - x), torch.zeros_like(x)
        )


@conv("loss-nonfinite", "log")
class Lg(nn.Module):
    def forward(self, x):
        return torch.log(x)

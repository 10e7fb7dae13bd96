"""Faults that the exam showed: kept graphs, hidden cuts, starts that no step leaves."""

import copy

import torch
from torch import nn
from torch.nn import functional as F

from gradient_check.exam.case import ModuleQuestions
from gradient_check.exam.known.hosts import PLAIN, Block, Tower, squares

questions = ModuleQuestions("kept and hidden", lambda part: Tower(part), "blocks.1", **PLAIN)
model, part = questions.faulty, questions.faulty_part


def averaged(module, x):
    return squares(copy.deepcopy(module)(x))


@model("no-gradient", None, "copy.deepcopy(module)", loss=averaged)
def by_a_copy():
    return nn.Sequential(nn.Linear(6, 2))


class Both(torch.autograd.Function):
    """Squares, and their mean, which is declared to have no gradient."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        squared, mean = x * x, (x * x).mean(1, keepdim=True)
        ctx.mark_non_differentiable(mean)
        return squared, mean

    @staticmethod
    def backward(ctx, g, _):
        return g * 2 * ctx.saved_tensors[0]


@part("graph-cut", "mark_non_differentiable", place=None)
class Undifferentiated(Block):
    def spoil(self, h):
        return Both.apply(h)[1].expand(-1, 6)


@part("graph-cut", "h.detach() if self.calls")
class LaterCut(Block):
    calls = 0

    def spoil(self, h):
        self.calls += 1
        return h.detach() if self.calls > 3 else h


class Banked(Block):
    def __init__(self):
        super().__init__()
        self.bank = []

    def spoil(self, h):
        self.bank = [*self.bank[-1:], F.normalize(h)]
        return h + sum(self.bank)


part("stale-forward", "F.normalize(h)")(Banked)


@model("graph-cut", "(root) (Merged)", "self.base.weight.data = ")
class Merged(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Linear(6, 2)
        self.kept = self.base.weight.detach().clone()
        self.scale = nn.Parameter(torch.ones(2, 1))

    def forward(self, x):
        self.base.weight.data = self.kept * self.scale
        return self.base(x)


@model("gradient-wrong", None, "sign() * gradient.abs()")
def signs_for_gradients():
    module = Tower(Block())
    for parameter in module.parameters():
        parameter.register_hook(lambda gradient: gradient.sign() * gradient.abs().mean())
    return module


@part("gradient-wrong", "sigma.detach()")
class OwnSpectralNorm(Block):
    def spoil(self, h):
        sigma = torch.linalg.matrix_norm(self.linear.weight, 2)
        return F.linear(h, self.linear.weight / sigma.detach()) * 0.3 + h


@model("grad-zero", "0 (Factors)")
def both_factors_zero():
    return nn.Sequential(Factors(), nn.Linear(6, 2))


class Factors(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Parameter(torch.zeros(2, 6)), nn.Parameter(torch.zeros(6, 2))

    def forward(self, x):
        return x + x @ self.down.T @ self.up.T

"""Healthy blocks of a tower."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations

from gradient_check.exam.case import ModuleQuestions
from gradient_check.exam.known.hosts import PLAIN, Block, Tower

questions = ModuleQuestions("tower", Tower, **PLAIN)
block = questions.sound_part


@block
class Dropped(Block):
    def spoil(self, h):
        return F.dropout(h, 0.3, self.training)


@block
class ShiftedSoftmax(Block):
    def spoil(self, h):
        h = h - h.max(-1, keepdim=True).values.detach()
        return h.exp() / h.exp().sum(-1, keepdim=True)


@block
class KeepsAMask(Block):
    mask: Tensor

    def __init__(self):
        super().__init__()
        self.register_buffer("mask", None, persistent=False)

    def spoil(self, h):
        if self.mask is None:
            self.mask = torch.ones(6)
        return h * self.mask


@block
class KeepsMetrics(Block):
    def spoil(self, h):
        self.mean = h.detach().mean().item()
        self.best = h.argmax(-1).tolist()
        return h


@block
class Routed(Block):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(6, 3)
        self.experts = nn.ModuleList(nn.Linear(6, 6) for _ in range(3))

    def spoil(self, h):
        weights = self.router(h).softmax(-1)
        return sum(weights[:, i : i + 1] * expert(h) for i, expert in enumerate(self.experts))


@block
class Spectral(Block):
    def __init__(self):
        super().__init__()
        parametrizations.spectral_norm(self.linear, n_power_iterations=3)


@block
class WeightNormed(Block):
    def __init__(self):
        super().__init__()
        self.linear = parametrizations.weight_norm(self.linear)


@block
class Clamped(Block):
    def spoil(self, h):
        return h.clamp(-0.5, 0.5) + torch.where(h > 0, h, 0.1 * h)


class Cubed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * g


@block
class CustomFunction(Block):
    def spoil(self, h):
        return Cubed.apply(h)

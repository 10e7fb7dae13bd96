"""A residual net with room for a core, its probe and its loss."""

import torch
from torch import nn
from torch.nn import functional as F

from gradient_check.exam.known.hosts import rows

PROBE = rows(5, 10)


def entropy(output):
    return F.cross_entropy(output, torch.tensor([0, 1, 2, 3, 0]), reduction="none")


class Net(nn.Module):
    def __init__(self, core):
        super().__init__()
        self.inp = nn.Linear(10, 12)
        self.norm = nn.LayerNorm(12)
        self.core = core
        self.out = nn.Linear(12, 4)

    def forward(self, x):
        h = F.silu(self.norm(self.inp(x)))
        return self.out(h + self.core(h))


class Core(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(12, 12)
        self.b = nn.Linear(12, 12)

    def forward(self, h):
        return self.b(self.mid(F.gelu(self.a(h))))

    def mid(self, h):
        return h

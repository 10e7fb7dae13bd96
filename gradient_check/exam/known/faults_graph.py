"""Faults in a tower's block that cut the graph."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from gradient_check.exam.case import ModuleQuestions
from gradient_check.exam.known.hosts import PLAIN, Block, Tower

questions = ModuleQuestions("tower, cut", Tower, "blocks.1", **PLAIN)
block = questions.faulty_part


@block("graph-cut", ".detach()")
class Detached(Block):
    def spoil(self, h):
        return h.detach()


@block("graph-cut", ".data")
class Data(Block):
    def spoil(self, h):
        return h.data * 2


@block("graph-cut", "tolist()")
class TensorOfList(Block):
    def spoil(self, h):
        values = h.tolist()
        return torch.tensor(values)


@block("graph-cut", "no_grad")
class NoGradBlock(Block):
    def spoil(self, h):
        with torch.no_grad():
            h = h * 2
            h = torch.relu(h)
        return h + 1


@block("graph-cut", "no_grad")
class NoGradMethod(Block):
    @torch.no_grad()
    def spoil(self, h):
        return h * 3


@block("graph-cut", "inference_mode")
class InferenceModeBlock(Block):
    def spoil(self, h):
        with torch.inference_mode():
            h = h * 2
        return h + 0.0


@block("graph-cut", "set_grad_enabled(False)")
class GradSwitchedOff(Block):
    def spoil(self, h):
        with torch.set_grad_enabled(False):
            return h * 2


@block("graph-cut", "argmax")
class ArgMax(Block):
    def spoil(self, h):
        best = h.argmax(-1)
        return F.one_hot(best, 6).float()


@block("graph-cut", "numpy()")
class NumpyRoundTrip(Block):
    def spoil(self, h):
        array = np.tanh(h.cpu().detach().numpy())
        return torch.from_numpy(array)


@block("graph-cut", ".long()")
class Long(Block):
    def spoil(self, h):
        return (h * 10).long().float()


@block("graph-cut", "> 0")
class Comparison(Block):
    def spoil(self, h):
        return (h > 0).float()


@block("graph-cut", "Parameter(")
class Rewrapped(Block):
    def spoil(self, h):
        fresh = nn.Parameter(h)
        return fresh * 2


@block("graph-cut", "self.w.detach()", place="blocks.1")
class DetachedWeight(Block):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(6, 6))

    def spoil(self, h):
        return F.linear(h, self.w.detach())


@block("graph-cut", "requires_grad_(False)")
class FreezesItself(Block):
    def spoil(self, h):
        self.linear.weight.requires_grad_(False)
        return F.linear(h, self.linear.weight)


@block("graph-cut", "checkpoint(")
class ReentrantCheckpoint(Block):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(6, 6)

    def forward(self, x):
        return x + checkpoint(self.inner, torch.ones(3, 6), use_reentrant=True)

"""Faults in a convolutional net that cut the graph."""

import copy

import torch
from torch import nn
from torch.nn import functional as F

from gradient_check.exam.case import ModuleQuestions
from gradient_check.exam.known.hosts import IMAGES, Conv, squares

questions = ModuleQuestions("convolutions, cut", Conv, "mid", probe=IMAGES, loss=squares)
conv = questions.faulty_part


@conv("graph-cut", "> x.mean()")
class BinaryMask(nn.Module):
    def forward(self, x):
        return torch.where(x > x.mean(), 1.0, 0.0)


@conv("graph-cut", None)
class NewT(nn.Module):
    def forward(self, x):
        values = [float(value) for value in x.flatten()]
        return x.new_tensor(values).view_as(x)


@conv("train-forward")
class DeepC(nn.Module):
    def forward(self, x):
        return copy.deepcopy(x) * 2


@conv("graph-cut", "torch.uint8")
class Long(nn.Module):
    def forward(self, x):
        return (x * 255).to(torch.uint8).float() / 255


@conv("graph-cut", ".detach()")
class BadSTE2(nn.Module):
    def forward(self, x):
        return (x + (x.round() - x)).detach()


@conv("graph-cut", "no_grad")
class DecoratedOnly(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Conv2d(8, 8, 1)

    @torch.no_grad()
    def gate(self, x):
        return torch.sigmoid(self.inner(x))

    def forward(self, x):
        return x * self.gate(x)


@conv("graph-cut", "inference_mode")
class IM(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Conv2d(8, 8, 1)

    def forward(self, x):
        with torch.inference_mode():
            inner = self.inner(x)
        return x + inner


@conv("graph-cut", ".data")
class WData(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 8, 1, 1) * 0.3)

    def forward(self, x):
        return F.conv2d(x, self.weight.data)


@conv("unused")
class WCopy(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 8, 1, 1) * 0.3)
        self.copied = self.weight.data.clone()

    def forward(self, x):
        return F.conv2d(x, self.copied)


@conv("graph-cut", None)
class FrzAfter(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Conv2d(8, 8, 1)

    def forward(self, x):
        y = self.inner(x)
        self.inner.weight.requires_grad = False
        return y

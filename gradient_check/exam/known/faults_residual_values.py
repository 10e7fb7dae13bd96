"""Faults in a residual net's core: wrong gradients, and state that forwards keep."""

import torch
from torch import nn
from torch.nn import functional as F

from gradient_check.exam.case import ModuleQuestions
from gradient_check.exam.known.residual import PROBE, Core, Net, entropy

questions = ModuleQuestions("residual net, wrong values", Net, "core", loss=entropy, probe=PROBE)
fault = questions.faulty_part


@fault("gradient-wrong", "detach()")
class DetachedInput(Core):
    def forward(self, h):
        return self.b(F.gelu(self.a(h.detach())))


class MeanForBias(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, b):
        ctx.save_for_backward(x, w)
        return F.linear(x, w, b)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w, g.T @ x, g.mean(0)


@fault("gradient-wrong", "def backward", place=None)
class WrongBiasGradient(Core):
    def mid(self, h):
        return MeanForBias.apply(h, self.a.weight, self.a.bias)


@fault("gradient-wrong", "weight.data")
class SharedWeightData(Core):
    def mid(self, h):
        return F.linear(h, self.a.weight.data)


@fault("grad-nonfinite", "acos")
class SlopeAtTheEdge(Core):
    def mid(self, h):
        return h + torch.acos(torch.ones_like(h) + 0 * h)


@fault("gradient-wrong", "no_grad")
class VarianceWithoutGraph(Core):
    def mid(self, h):
        mean = h.mean(-1, keepdim=True)
        with torch.no_grad():
            variance = h.var(-1, keepdim=True)
        return (h - mean) / torch.sqrt(variance + 1e-5)


@fault("gradient-wrong", "detach()")
class DetachedGate(Core):
    def mid(self, h):
        return h * torch.softmax(3 * h, -1).max(-1, keepdim=True).values.detach()


@fault("gradient-wrong", "detach()")
class FunctionalCallWithDetached(Core):
    def mid(self, h):
        tensors = {name: p.detach() for name, p in self.b.named_parameters()}
        return torch.func.functional_call(self.b, tensors, (h,))


@fault("base-changed", "weight.copy_")
class NormalisesItself(Core):
    def mid(self, h):
        with torch.no_grad():
            self.a.weight.copy_(self.a.weight / self.a.weight.norm(dim=1, keepdim=True))
        return h


@fault("base-changed", place=None)
class RenormalisedEmbedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(10, 12, max_norm=0.1)

    def forward(self, h):
        return self.e(torch.arange(h.shape[0])) + h


@fault("leak", place=None, level="WARN")
class KeepsOnTheClass(Core):
    outputs: list[torch.Tensor] = []

    def mid(self, h):
        self.outputs.append(h)
        return h


@fault("train-forward", "NotImplementedError")
class RefusesToTrain(Core):
    def mid(self, h):
        if h.requires_grad:
            raise NotImplementedError("no training")
        return h


@fault("gradient-wrong", "register_hook")
class DropsSmallGradients(Core):
    def mid(self, h):
        y = h * 1
        if y.requires_grad:
            y.register_hook(lambda g: torch.where(g.abs() > g.abs().median(), g, g * 0))
        return y


@fault("gradient-wrong", "detach()")
class DetachedSlice(Core):
    def mid(self, h):
        y = h.clone()
        y[:, :3] = y[:, :3].detach()
        return y


@fault("gradient-wrong", ".data")
class DoubledThroughData(Core):
    def mid(self, h):
        y = h.clone()
        y.data[:, :3] *= 2
        return y * y


@fault("base-changed", place=None)
class SharedDict(Core):
    shared: dict[str, float] = {}

    def mid(self, h):
        if self.training:
            self.shared["k"] = 0.5
        return h * self.shared.get("k", 1.0)

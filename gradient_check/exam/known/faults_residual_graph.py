"""Faults in a residual net's core that cut the graph."""

import torch
from torch import nn

from gradient_check.exam.case import ModuleQuestions
from gradient_check.exam.known.residual import PROBE, Core, Net, entropy

questions = ModuleQuestions("residual net, cut", Net, "core", loss=entropy, probe=PROBE)
fault = questions.faulty_part


@fault("graph-cut", "numpy(force=True)")
class ForcedNumpy(Core):
    def mid(self, h):
        return torch.tensor(h.numpy(force=True))


@fault("graph-cut")
class HeldContext(Core):
    def mid(self, h):
        context = torch.no_grad()
        with context:
            return h * 2


@fault("graph-cut", ".item()")
class LoopOverItems(Core):
    def mid(self, h):
        out = torch.zeros_like(h)
        for i in range(h.shape[0]):
            for j in range(h.shape[1]):
                out[i, j] = h[i, j].item()
        return out


@fault("graph-cut", "detach_()")
class DetachedInPlace(Core):
    def mid(self, h):
        h = h * 1.0
        h.detach_()
        return h


@fault("graph-cut", "quantize_per_tensor")
class QuantizedActivation(Core):
    def mid(self, h):
        return torch.quantize_per_tensor(h.float(), 0.05, 0, torch.qint8).dequantize()


@fault("graph-cut", "bucketize")
class Bucketized(Core):
    def mid(self, h):
        return torch.bucketize(h, torch.linspace(-2, 2, 30)).float() / 30


@fault("graph-cut", "searchsorted")
class Searched(Core):
    def mid(self, h):
        return torch.searchsorted(torch.linspace(-2, 2, 30), h.contiguous()).float() / 30


@fault("graph-cut", "set_grad_enabled")
class GradEnabledFalse(Core):
    def mid(self, h):
        with torch.set_grad_enabled(mode=False):
            doubled = h * 2
        return doubled + 1


@fault("unused")
class UnusedGate(Core):
    def __init__(self):
        super().__init__()
        self.gate = nn.Parameter(torch.zeros(12))

"""Faults of idioms: hidden weights, caches, switches, kept graphs, recomputation."""

import functools

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from gradient_check.exam.case import ModuleQuestions
from gradient_check.exam.known.hosts import rows
from gradient_check.exam.known.plain import PROBE, ComplexMix, Net, entropy

questions = ModuleQuestions("idioms", loss=entropy, probe=PROBE)
fault = questions.faulty


@fault("unregistered", "(root)")
class LayersInAList(Net):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(8, 8), nn.Linear(8, 8)]

    def mid(self, h):
        for layer in self.layers:
            h = torch.tanh(layer(h))
        return h


@fault("unregistered", "(root)")
class ScaleInADict(Net):
    def __init__(self):
        super().__init__()
        self.scales = {"h": nn.Parameter(torch.ones(8))}

    def mid(self, h):
        return h * self.scales["h"]


GLOBAL_SCALE = nn.Parameter(torch.ones(8))


@fault("unregistered", level="WARN")
class GlobalParameter(Net):
    def mid(self, h):
        return h * GLOBAL_SCALE


@fault("nothing-trainable")
class AllHidden(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = {"a": nn.Linear(8, 4)}

    def forward(self, x):
        return self.heads["a"](x)


@fault("serve-differs", "(root)", "self.fused")
class EvalUsesACopy(Net):
    def __init__(self):
        super().__init__()
        self.fused = [self.out.weight.detach().clone(), self.out.bias.detach().clone()]

    def forward(self, x):
        h = torch.tanh(self.inp(x))
        return self.out(h) if self.training else F.linear(h, *self.fused)


@fault("serve-differs", "inp", options={"trainable": "^inp"})
class EvalTakesAnotherPath(Net):
    def forward(self, x):
        return self.out(self.inp(x) if self.training else x)


@fault("stale-forward", "(root)", "softmax(self.weight")
class CachedWeight(Net):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(rows(8, 8))

    @functools.cache  # noqa: B019 - the fault
    def mixed(self):
        return torch.softmax(self.weight, -1)

    def mid(self, h):
        return h @ self.mixed()


@fault("stale-forward", "inp", "self.cache[key] =")
class CachedFeatures(Net):
    def __init__(self):
        super().__init__()
        self.cache = {}

    def forward(self, x):
        key = tuple(x.shape)
        if key not in self.cache:
            self.cache[key] = torch.tanh(self.inp(x))
        return self.out(self.cache[key])


@fault("unused", "inp", "functional_call")
class SnapshotInADict(Net):
    def __init__(self):
        super().__init__()
        self.snapshot = {k: v.detach().clone() for k, v in self.inp.named_parameters()}

    def forward(self, x):
        return self.out(torch.func.functional_call(self.inp, self.snapshot, (x,)))


@fault("flags-changed", None, "set_num_threads")
class SetsThreads(Net):
    def mid(self, h):
        torch.set_num_threads(2)
        return h


@fault("thread-mode", None, "__enter__")
class NeverLeavesAutocast(Net):
    def mid(self, h):
        torch.autocast("cpu", torch.bfloat16).__enter__()
        return h


@fault("backward", "hidden")
class CarriesItsState(Net):
    def __init__(self):
        super().__init__()
        self.hidden = None

    def mid(self, h):
        self.hidden = h if self.hidden is None else torch.tanh(h + self.hidden)
        return self.hidden


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(w)
        return x * w

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]


@fault("backward", None, "def backward")
class TooFewGradients(Net):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(8))

    def mid(self, h):
        return Scale.apply(h, self.scale)


def backward_inside(output):
    losses = entropy(output)
    losses.mean().backward()
    return losses


@fault("backward", None, ".backward()", loss=backward_inside)
def loss_calls_backward():
    return Net()


@fault("gradient-wrong", None, "preserve_rng_state")
class OtherDropoutInBackward(Net):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 16)
        self.b = nn.Linear(16, 8)

    def block(self, h):
        return torch.tanh(self.b(F.dropout(torch.tanh(self.a(h)), 0.5)))

    def mid(self, h):
        return checkpoint(self.block, h, use_reentrant=False, preserve_rng_state=False)


@fault("graph-cut", None, ".detach()")
class ComplexCut(ComplexMix):
    def weight(self):
        return self.mix.detach()

"""Faults of a training: state that forwards keep, losses, optimizers, an entry, recomputation."""

import functools
import math
from typing import Any

import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from gradient_check.exam.case import ModuleQuestions
from gradient_check.exam.known.hosts import IDS, IMAGES, PLAIN, CausalTransformer, Conv, next_token

questions = ModuleQuestions("trainings", Conv, "mid", **PLAIN)
conv = functools.partial(questions.faulty_part, probe=IMAGES)
fault = questions.faulty


@conv("base-changed", None)
class Ema(nn.Module):
    ema: torch.Tensor

    def __init__(self):
        super().__init__()
        self.register_buffer("ema", torch.zeros(8))

    def forward(self, x):
        self.ema.mul_(0.9).add_(0.1 * x.detach().mean((0, 2, 3)))
        return x - self.ema.view(1, -1, 1, 1)


@conv("random-inference", None, place=None, level="WARN")
class AlwaysDrop(nn.Module):
    def forward(self, x):
        return F.dropout(x, 0.3)


@conv("nondeterministic", None, place=None, level="WARN")
class Rnd(nn.Module):
    calls = 0

    def forward(self, x):
        Rnd.calls += 1
        return x * (1 + 0.1 * math.sin(Rnd.calls))


@conv("leak", None, place=None, level="WARN")
class Hist(nn.Module):
    def __init__(self):
        super().__init__()
        self.history = []

    def forward(self, x):
        self.history.append(x)
        return x * 1.0


HISTORY: list[Any] = []


@conv("leak", None, place=None, level="WARN")
class GHist(nn.Module):
    def forward(self, x):
        HISTORY.append(x.mean())
        return x * 1.0


@fault(
    "gradient-wrong",
    line="detach",
    loss=lambda output: (output / output.detach().norm()).pow(3).sum(1),
)
def loss_detach():
    return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3))


@fault("graph-cut", line="argmax", loss=lambda output: (output.argmax(-1) != 1).float())
def acc_loss():
    return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3))


@fault(
    "graph-cut",
    line="numpy",
    loss=lambda module, x: torch.tensor((module(x).detach().numpy() ** 2).mean()),
)
def np_loss():
    return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3))


@fault("loss-shape", loss=lambda module, x: None)
def none_loss():
    return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3))


@fault("train-forward", line="@")
def shape_error():
    class Square(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(5, 5))

        def forward(self, x):
            return x @ self.weight if self.training else x

    return Square()


@fault(
    "not-optimized",
    options={"make_optimizer": lambda parameters: torch.optim.SGD(list(parameters)[:2], lr=0.1)},
)
def part_opt():
    return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3))


@fault(
    "ascent",
    level="WARN",
    options={
        "make_optimizer": lambda parameters: torch.optim.SGD(parameters, lr=0.1, maximize=True)
    },
)
def maxi():
    return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3))


@torch.no_grad()
async def decorated_entry(x):
    return x


@fault("async-decorated", options={"entry": decorated_entry})
def entry():
    return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3))


@fault("gradient-wrong", "1", None)
def functional_call_checkpoint():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6))
            self.scale = nn.Parameter(torch.ones(1))

            class Recomputed(nn.Module):
                def __init__(self, inner):
                    super().__init__()
                    self.inner = inner

                def forward(self, x):
                    return checkpoint(self.inner, x, use_reentrant=False)

            self.recomputed = Recomputed(self.inner)

        def forward(self, x):
            tensors = {name: p * self.scale * 1.5 for name, p in self.recomputed.named_parameters()}
            return functional_call(self.recomputed, tensors, (x,))

    return nn.Sequential(nn.Linear(6, 6), Scaled(), nn.Linear(6, 3))


@fault("gradient-wrong", "enc.layers.1", "detach", probe=IDS, loss=next_token)
def tr_detach():
    model = CausalTransformer()
    layer = model.enc.layers[1]
    kind: Any = type(layer)

    class Detaching(kind):
        def _ff_block(self, x):
            return super()._ff_block(x.detach())

    layer.__class__ = Detaching
    return model

"""Faults of which serving tells: values kept from a first call, and ways that only inference takes.

Beside them are healthy models whose inference does without a part, or that keep something.
"""

import functools

import torch
from torch import nn
from torch.nn import functional as F

from gradient_check.exam.case import ModuleQuestions
from gradient_check.exam.known.hosts import rows, squares

questions = ModuleQuestions("serving", probe=rows(8, 6), loss=squares)
model = questions.faulty
noisy = functools.partial(questions.sound, options={"random_loss": True})


class Net(nn.Module):
    """Two layers with room for what goes wrong between them."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 2)

    def forward(self, x):
        return self.second(self.mid(torch.tanh(self.first(x))))

    def mid(self, h):
        return h


@model("stale-forward", "(root) (FeaturesOnce)", "h.mean(0).detach()")
class FeaturesOnce(Net):
    kept = None

    def mid(self, h):
        if self.kept is None:
            self.kept = h.mean(0).detach()
        return h - self.kept


@model("stale-forward", "(root) (NumberOnce)", "h.std().item()")
class NumberOnce(Net):
    spread = None

    def mid(self, h):
        if self.spread is None:
            self.spread = h.std().item()
        return h / self.spread


@model("stale-forward", "(root) (Normed)", "F.normalize(self.first.weight.detach()")
class Normed(Net):
    @functools.cached_property
    def normed(self):
        return F.normalize(self.first.weight.detach(), dim=-1).sum(1)

    def mid(self, h):
        return h + self.normed


@model("stale-forward", "(root) (ByLength)", "torch.sin(h.detach().mean(0))")
class ByLength(Net):
    def __init__(self):
        super().__init__()
        self.tables = {}

    def mid(self, h):
        if len(h) not in self.tables:
            self.tables[len(h)] = torch.sin(h.detach().mean(0))
        return h + self.tables[len(h)]


KEPT: dict[str, torch.Tensor] = {}


@model("stale-forward", "(root) (InAGlobal)", 'KEPT["mean"] = h.mean(0)')
class InAGlobal(Net):
    def __init__(self):
        super().__init__()
        KEPT.clear()

    def mid(self, h):
        if "mean" not in KEPT:
            KEPT["mean"] = h.mean(0)
        return h - KEPT["mean"]


@model("stale-forward", "(root) (InAClass)", "InAClass.table = self.first.weight.sum(1)")
class InAClass(Net):
    table: torch.Tensor | None = None

    def __init__(self):
        super().__init__()
        InAClass.table = None

    def mid(self, h):
        if InAClass.table is None:
            InAClass.table = self.first.weight.sum(1) * 2
        return h + InAClass.table


@model("serve-differs", "(root) (Packed)", "self.packed * self.step")
class Packed(Net):
    def __init__(self):
        super().__init__()
        weight = self.second.weight.detach()
        self.step = weight.abs().max() / 127
        self.packed = (weight / self.step).round()

    def forward(self, x):
        h = torch.tanh(self.first(x))
        if torch.is_grad_enabled():
            return self.second(h)
        return F.linear(h, self.packed * self.step, self.second.bias)


@model("serve-differs", "(root) (Rounded)", "(h * 4).round() / 4")
class Rounded(Net):
    def mid(self, h):
        if torch.is_inference_mode_enabled():
            h = (h * 4).round() / 4
        return h


@model("serve-differs", "(root) (Skipping)", "h + torch.sin(h)")
class Skipping(Net):
    def mid(self, h):
        return h + torch.sin(h) if torch.is_grad_enabled() else h


@model("serve-differs", "(root) (AfterFastPath)", "h * 0.9", probe=rows(4, 5, 8))
class AfterFastPath(nn.Module):
    """Torch's own fast path comes first, and gives the same values."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, 1), nn.Linear(8, 2)
        self.eval()

    def forward(self, x):
        h = self.encoder(x).mean(1)
        if not h.requires_grad:
            h = h * 0.9
        return self.head(h)


@noisy()
class NoisyGate(Net):
    def __init__(self):
        super().__init__()
        self.noise = nn.Linear(8, 8)

    def mid(self, h):
        return h + torch.randn_like(h) * F.softplus(self.noise(h)) if self.training else h


@noisy()
class Posterior(Net):
    def __init__(self):
        super().__init__()
        self.spread = nn.Linear(8, 8)

    def mid(self, h):
        if not self.training:
            return h
        return torch.distributions.Normal(h, F.softplus(self.spread(h))).rsample()


@noisy()
class NoisyWeight(Net):
    def __init__(self):
        super().__init__()
        self.sigma = nn.Parameter(rows(8).abs())

    def mid(self, h):
        return h + self.sigma * torch.empty_like(h).normal_() if self.training else h


@questions.sound()
class ConstantInAGlobal(Net):
    """Keeps a table that is the same whatever the weights are."""

    def __init__(self):
        super().__init__()
        KEPT.clear()

    def mid(self, h):
        if "steps" not in KEPT:
            KEPT["steps"] = torch.linspace(0, 1, 8) * self.first.weight.isfinite().all()
        return h + KEPT["steps"]


@questions.sound(options={"unused": ["fixed.*"]})
class FrozenFeaturesInAGlobal(Net):
    """Keeps the features of a net that is not trained."""

    def __init__(self):
        super().__init__()
        self.fixed = nn.Linear(8, 8).requires_grad_(False)
        KEPT.clear()

    def mid(self, h):
        if "bias" not in KEPT:
            KEPT["bias"] = self.fixed.weight.sum(1) * 2
        return h + KEPT["bias"]

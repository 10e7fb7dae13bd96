"""Healthy cores of a residual net, and other whole nets."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from gradient_check.exam.case import ModuleQuestions
from gradient_check.exam.known.hosts import rows
from gradient_check.exam.known.residual import PROBE, Core, Net, entropy
from gradient_check.phases.precision import Precision

questions = ModuleQuestions("residual net", Net, loss=entropy, probe=PROBE)
part, healthy = questions.sound_part, questions.sound


@part
class KeepsStatistics(Core):
    def mid(self, h):
        with torch.no_grad():
            self.largest = float(h.abs().max())
            mask = (h > -10).float()
        return h * mask


@part
class CheckpointedDropout(Core):
    def mid(self, h):
        def inner(z):
            return F.dropout(z, 0.3, self.training) * 2

        return checkpoint(inner, h, use_reentrant=False)


@part
class Noisy(Core):
    def mid(self, h):
        return h * torch.rand_like(h) if self.training else h * 0.5


@part
class Gumbel(Core):
    def mid(self, h):
        return F.gumbel_softmax(h) if self.training else h.softmax(-1)


@part
class Normalised(Core):
    def mid(self, h):
        weight = self.a.weight
        return F.linear(h, weight / weight.norm(dim=1, keepdim=True))


@part
class Permuted(Core):
    def mid(self, h):
        return h[:, torch.randperm(12)] if self.training else h


@part
class Sorted(Core):
    def mid(self, h):
        return h.gather(-1, h.argsort(-1))


@part
class KeepsLog(Core):
    def __init__(self):
        super().__init__()
        self.log = []

    def mid(self, h):
        self.log.append(h.detach().mean())
        return h


@part
class Logarithm(Core):
    def mid(self, h):
        if self.training:
            h = h + torch.randn_like(h) * 0.1
        return h.abs().add(1e-3).log()


@healthy(
    probe=rows(2, 1, 28, 28), loss=lambda output: F.cross_entropy(output, torch.tensor([1, 3]))
)
def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(256, 120), nn.ReLU(), nn.Linear(120, 10),
    )  # fmt: skip


@healthy(probe=rows(2, 3, 16, 16), loss=lambda output: output.pow(2).mean((1, 2, 3)))
def up_and_down():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.down = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.PReLU())
            self.up = nn.ConvTranspose2d(8, 3, 4, 2, 1)
            self.side = nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(8, 3, 1))

        def forward(self, x):
            h = self.down(x)
            return x + self.up(h) + self.side(h)

    return Net()


@healthy(probe=rows(4, 7, 6), loss=lambda output: output.pow(2).mean((1, 2)))
def encoder_and_decoder():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.t = nn.Transformer(6, 2, 2, 2, 12, batch_first=True)

        def forward(self, x):
            return self.t(x, x[:, :3])

    return Net()


@healthy(
    probe=rows(4, 6),
    loss=lambda module, x: (module(x) @ module(x + 0.1).T / 0.07).log_softmax(-1).diag().neg(),
)
def contrastive():
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 8))


@healthy(
    probe=rows(16, 6),
    loss=lambda output: output.pow(2).mean(1),
    options={"precision": Precision(torch.device("cpu"), torch.bfloat16)},
)
def deep_in_bf16():
    layers = [m for _ in range(6) for m in (nn.Linear(6, 6), nn.LayerNorm(6), nn.GELU())]
    return nn.Sequential(*layers, nn.Linear(6, 3))

"""Healthy models whose idioms look like faults."""

import torch
from torch import nn
from torch.nn import functional as F

from gradient_check.exam.case import ModuleQuestions
from gradient_check.exam.known.plain import PROBE, ComplexMix, Net, entropy

IDS = torch.arange(28).reshape(4, 7) % 20

questions = ModuleQuestions("idioms", loss=entropy, probe=PROBE)
healthy = questions.sound

healthy()(ComplexMix)


@healthy(options={"unused": ["target.*"]})
class DeclaredTarget(Net):
    def __init__(self):
        super().__init__()
        self.target = nn.Linear(8, 8)

    def forward(self, x):
        with torch.no_grad():
            wanted = self.target(x)
        return super().forward(x) + (self.inp(x) - wanted).square().mean(-1, keepdim=True)


@healthy("random-loss", "surrogate")
class HardGumbel(Net):
    def mid(self, h):
        return F.gumbel_softmax(h, hard=True)


@healthy(
    probe=IDS,
    options={"make_optimizer": lambda parameters: torch.optim.SparseAdam(parameters, lr=1e-3)},
)
class SparseEmbedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(20, 4, sparse=True)

    def forward(self, ids):
        return self.table(ids).mean(1)


@healthy(loss=lambda output: output.square().mean(-1), options={"trainable": "^0"})
def flat_loss():
    return nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8))


@healthy(
    "coarse-dtype", loss=lambda output: entropy(output.float()), options={"learning_rate": 1e-6}
)
def steps_too_small_to_see_in_16_bits():
    return Net().bfloat16()


@healthy("serve-differs", loss=lambda losses: losses)
class AuxiliaryHead(Net):
    def __init__(self):
        super().__init__()
        self.auxiliary = nn.Linear(8, 4)

    def forward(self, x):
        losses = entropy(super().forward(x))
        return losses + entropy(self.auxiliary(x)) if self.training else losses


@healthy(loss=lambda output: output.square().mean(-1))
class FrozenTeacherInAList(Net):
    def __init__(self):
        super().__init__()
        self.teacher = [nn.Linear(8, 4).requires_grad_(False)]

    def forward(self, x):
        return super().forward(x) - self.teacher[0](x)

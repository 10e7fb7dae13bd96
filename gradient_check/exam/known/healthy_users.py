"""Healthy models as users write them, of which a part is not reached by every probe."""

import torch
from torch import nn

from gradient_check.exam.case import ModuleQuestions
from gradient_check.exam.known.faults_users import AutoEncoder, itself
from gradient_check.exam.known.hosts import PLAIN

questions = ModuleQuestions("plain PyTorch", **PLAIN)
healthy = questions.sound


@healthy("dead")
class OneToken(nn.Module):
    """Attention over one token: the softmax of one number is 1, whatever queries and keys are."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(6, 6) for _ in range(3))
        self.out = nn.Linear(6, 2)

    def forward(self, x):
        x = x[:, None]
        weights = (self.q(x) @ self.k(x).mT).softmax(-1)
        return self.out((weights @ self.v(x))[:, 0])


@healthy()
class Penalised(nn.Module):
    """Takes the gradient by its input, a leaf that every forward makes anew."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 1))

    def forward(self, x):
        with torch.inference_mode(False), torch.enable_grad():
            x = x.clone().requires_grad_()
            (slope,) = torch.autograd.grad(self.net(x).sum(), x, create_graph=True)
        return self.net(x) + slope


healthy("surrogate", loss=itself)(AutoEncoder)


class Spikes(torch.autograd.Function):
    """A spike with the usual surrogate of its slope."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x > 0).float()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g / (1 + 5 * x.abs()) ** 2


class Spiking(nn.Module):
    def forward(self, x):
        return Spikes.apply(x)


@healthy("surrogate")
def spiking_network():
    return nn.Sequential(nn.Linear(6, 6), Spiking(), nn.Linear(6, 2))


class SoftSpiking(nn.Module):
    def forward(self, x):
        soft = torch.sigmoid(5 * x)
        return (x > 0).float() + soft - soft.detach()


@healthy("surrogate")
def spiking_network_without_a_function():
    return nn.Sequential(nn.Linear(6, 6), SoftSpiking(), nn.Linear(6, 2))


@healthy("unreached")
class Experts(nn.Module):
    """Each example goes to one of eight experts, of which three examples reach few."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(6, 8)
        self.experts = nn.ModuleList(nn.Linear(6, 6) for _ in range(8))
        self.head = nn.Linear(6, 2)

    def forward(self, x):
        chances, chosen = self.gate(x).softmax(1).max(1)
        rows = [self.experts[int(k)](row) for k, row in zip(chosen, x, strict=True)]
        return self.head(torch.stack(rows) * chances[:, None])


@healthy("unreached")
class LayersLeftOut(nn.Module):
    """Stochastic depth."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(6))
        self.head = nn.Linear(6, 2)

    def forward(self, x):
        for layer in self.layers:
            if not self.training or torch.rand(()) > 0.4:
                x = x + torch.tanh(layer(x))
        return self.head(x)


@healthy()
def scripted_activation():
    return nn.Sequential(nn.Linear(6, 6), torch.jit.script(nn.Tanh()), nn.Linear(6, 2))

"""Generative models: the open half."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gradient_check.exam.case import Case, Questions, rows
from gradient_check.exam.second.parts import mlp

questions = Questions("generative with noise")


@questions.fault("gradient-wrong")
def flow_volume_from_a_list() -> Case:
    class Coupling(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = mlp(2, 16, 4)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            a, b = x.chunk(2, -1)
            shift, log_scale = self.net(a).chunk(2, -1)
            log_scale = torch.tanh(log_scale)
            volume = torch.tensor(log_scale.sum(-1).tolist())  # fault
            return torch.cat([b * log_scale.exp() + shift, a], -1), volume

    class Flow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(Coupling() for _ in range(3))

        def forward(self, x: Tensor) -> Tensor:
            total = x.new_zeros(len(x))
            for layer in self.layers:
                x, volume = layer(x)
                total = total + volume
            return -0.5 * x.square().sum(-1) + total

    return Case(Flow(), rows(16, 4), lambda log_prob: -log_prob.mean())


@questions.healthy()
def realnvp() -> Case:
    class Coupling(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = mlp(2, 16, 4)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            a, b = x.chunk(2, -1)
            shift, log_scale = self.net(a).chunk(2, -1)
            log_scale = torch.tanh(log_scale)
            return torch.cat([b * log_scale.exp() + shift, a], -1), log_scale.sum(-1)

    class Flow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(Coupling() for _ in range(4))

        def forward(self, x: Tensor) -> Tensor:
            total = x.new_zeros(len(x))
            for layer in self.layers:
                x, volume = layer(x)
                total = total + volume
            return -0.5 * x.square().sum(-1) + total

    return Case(Flow(), rows(16, 4), lambda log_prob: -log_prob)


@questions.fault("gradient-wrong", "graph-cut", "grad-none")
def flow_path_between_cut_encodings() -> Case:
    class LatentFlow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.field = mlp(8, 16, 4), mlp(5, 32, 4)
            self.decoder = nn.Linear(4, 8)

        def forward(self, x: Tensor, t: Tensor, noise: Tensor) -> Tensor:
            latent = self.encoder(x)
            with torch.inference_mode():  # fault
                goal = latent - noise  # fault
            path = t * latent + (1 - t) * noise
            flow = (self.field(torch.cat([path, t], -1)) - goal.clone()).square().mean(-1)
            return flow + (self.decoder(latent) - x).square().mean(-1)

    batch = (rows(12, 8), torch.linspace(0, 1, 12)[:, None], rows(12, 4, seed=2))
    return Case(LatentFlow(), batch, lambda losses: losses)


@questions.healthy()
def flow_matching() -> Case:
    class Field(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Linear(5, 32), nn.GELU(), nn.Linear(32, 32), nn.GELU())
            self.out = nn.Linear(32, 4)

        def forward(self, x: Tensor, t: Tensor) -> Tensor:
            return self.out(self.net(torch.cat([x, t], -1)))

    def loss(field: nn.Module, x: Tensor) -> Tensor:
        t = torch.sigmoid(torch.randn(len(x), 1, dtype=x.dtype))
        noise = torch.randn_like(x)
        return (field((1 - t) * noise + t * x, t) - (x - noise)).square().mean(-1)

    return Case(Field(), rows(16, 4), loss, {"random_loss": True})


@questions.fault("graph-cut", "grad-zero", "grad-none", "no-gradient")
def gumbel_argmax_is_returned() -> Case:
    class Discrete(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = mlp(10, 24, 5)
            self.words, self.decoder = nn.Embedding(5, 8), mlp(8, 24, 10)

        def forward(self, x: Tensor) -> Tensor:
            logits = self.encoder(x) * 5
            uniform = torch.rand_like(logits).clamp(1e-6, 1 - 1e-6)
            noisy = logits - (-uniform.log()).log()
            return self.decoder(self.words(noisy.argmax(-1)))  # fault

    goals = rows(64, 10)
    options = {"random_loss": True}
    return Case(Discrete(), goals, lambda again: (again - goals).square().mean(), options)


@questions.healthy("random-inference")
def gumbel_softmax_relaxed() -> Case:
    class Concrete(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.decoder = mlp(10, 24, 12), mlp(12, 24, 10)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            logits = self.encoder(x).unflatten(-1, (3, 4))
            return self.decoder(F.gumbel_softmax(logits, tau=1.0).flatten(1)), logits

    def loss(model: nn.Module, x: Tensor) -> Tensor:
        again, logits = model(x)
        log_probs = logits.log_softmax(-1)
        divergence = (log_probs.exp() * (log_probs + math.log(4))).sum((-1, -2))
        return (again - x).square().sum(-1) + divergence

    return Case(Concrete(), rows(12, 10), loss, {"random_loss": True})


@questions.fault("gradient-wrong")
def hutchinson_trace_is_constant() -> Case:
    class Score(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Linear(4, 32), nn.Softplus(), nn.Linear(32, 4))

        def forward(self, x: Tensor) -> Tensor:
            return self.net(x)

    def loss(score: nn.Module, x: Tensor) -> Tensor:
        x = x.clone().requires_grad_()
        direction = torch.randn_like(x).sign()
        found = score(x)
        inner = (found * direction).sum()
        (push,) = torch.autograd.grad(inner, x, retain_graph=True)  # fault
        return ((push * direction).sum(-1) + 0.5 * found.square().sum(-1)).mean()

    return Case(Score(), rows(16, 4), loss, {"random_loss": True})

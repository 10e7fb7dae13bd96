"""Adversarial and domain training: the open half."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional as F

from gradient_check.exam.case import Case, Questions, numbers, rows
from gradient_check.exam.second.parts import mlp

questions = Questions("adversarial and domain")


@questions.fault("no-gradient", "graph-cut", "grad-none")
def generator_loss_on_detached_pictures() -> Case:
    class Gan(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.generator, self.critic = mlp(6, 24, 12), mlp(12, 24, 1)

        def forward(self, noise: Tensor) -> Tensor:
            return torch.tanh(self.generator(noise))

    def loss(gan: nn.Module, noise: Tensor) -> Tensor:
        fake = gan(noise)
        scores = gan.critic(fake.detach())  # fault
        return F.binary_cross_entropy_with_logits(scores, torch.ones_like(scores))

    return Case(Gan(), rows(8, 6), loss)


@questions.healthy()
def dann_with_a_declared_factor() -> Case:
    class Reverse(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, strength: float) -> Tensor:
            ctx.strength = strength
            return x.view_as(x)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
            return -ctx.strength * grad, None

    class Reversal(nn.Module):
        def __init__(self, strength: float) -> None:
            super().__init__()
            self.strength = strength

        def forward(self, x: Tensor) -> Tensor:
            return Reverse.apply(x, self.strength)

    class Dann(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.features = nn.Sequential(nn.Linear(8, 24), nn.Tanh())
            self.labels = nn.Linear(24, 3)
            self.domain = nn.Sequential(
                Reversal(0.4), nn.Linear(24, 12), nn.SiLU(), nn.Linear(12, 2)
            )

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            hidden = self.features(x)
            return self.labels(hidden), self.domain(hidden)

    def loss(model: nn.Module, batch: Any) -> Tensor:
        x, labels, domains = batch
        by_label, by_domain = model(x)
        return F.cross_entropy(by_label, labels) + F.cross_entropy(by_domain, domains)

    batch = (rows(8, 8), numbers(3, 8), numbers(2, 8, seed=3))
    return Case(Dann(), batch, loss, {"reversed_gradients": {r"domain\.0": -0.4}})


@questions.fault("gradient-wrong", "reversed-gradient")
def reversal_undeclared() -> Case:
    class Flip(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:  # type: ignore[override]
            return grad.neg() * 0.7  # fault

    class Dann(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.features, self.labels, self.domains = (
                mlp(8, 24, 12),
                nn.Linear(12, 3),
                mlp(12, 8, 1),
            )

        def forward(self, x: Tensor) -> Tensor:
            hidden = self.features(x)
            label = F.cross_entropy(self.labels(hidden), torch.arange(len(x)) % 3)
            domain = self.domains(Flip.apply(hidden)).squeeze(-1)  # fault
            return label + F.softplus(domain).mean()

    return Case(Dann(), rows(9, 8), lambda total: total)


@questions.healthy("serve", "dead")
def wgan_with_gradient_penalty() -> Case:
    def loss(critic: nn.Module, batch: Any) -> Tensor:
        real, fake, mix = batch
        between = (mix * real + (1 - mix) * fake).requires_grad_()
        scores = critic(between)
        (slope,) = torch.autograd.grad(
            scores, between, torch.ones_like(scores), create_graph=True, retain_graph=True
        )
        penalty = ((slope.square().sum(1) + 1e-12).sqrt() - 1).square().mean()
        return critic(fake).mean() - critic(real).mean() + 10 * penalty

    batch = (rows(8, 6), rows(8, 6, seed=2), torch.linspace(0.1, 0.9, 8)[:, None])
    return Case(mlp(6, 24, 1), batch, loss)


@questions.fault("graph-cut", "grad-none")
def critic_frozen_for_both_losses() -> Case:
    class Gan(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.generator, self.critic = mlp(6, 24, 12), mlp(12, 24, 1)

        def forward(self, noise: Tensor) -> Tensor:
            return self.generator(noise)

    def loss(gan: nn.Module, batch: Any) -> Tensor:
        real, noise = batch
        gan.critic.requires_grad_(False)  # fault
        fake = gan(noise)
        for_generator = F.softplus(-gan.critic(fake)).mean()
        for_critic = F.softplus(-gan.critic(real)).mean()  # fault
        return for_generator + for_critic

    return Case(Gan(), (rows(8, 12), rows(8, 6, seed=2)), loss)


@questions.healthy()
def feature_matching_with_constant_goal() -> Case:
    class Gan(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.generator = mlp(6, 24, 12)
            self.features = nn.ModuleList([nn.Linear(12, 10), nn.Linear(10, 8)])

        def forward(self, noise: Tensor) -> Tensor:
            return self.generator(noise)

        def levels(self, x: Tensor) -> list[Tensor]:
            found = []
            for layer in self.features:
                x = torch.tanh(layer(x))
                found.append(x)
            return found

    def loss(gan: nn.Module, batch: Any) -> Tensor:
        real, noise = batch
        wanted = [level.detach() for level in gan.levels(real)]
        found = gan.levels(gan(noise))
        gaps = [(a.mean(0) - b.mean(0)).square().sum() for a, b in zip(found, wanted, strict=True)]
        return torch.stack(gaps).sum()

    batch = (rows(8, 12), rows(8, 6, seed=2))
    return Case(Gan(), batch, loss, {"stop_gradients": ("level.detach()",)})

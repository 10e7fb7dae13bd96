"""Adversarial and domain training: the open half."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional as F

from gradient_check.exam.case import Case, Questions, rows
from gradient_check.exam.second.parts import mlp

questions = Questions("adversarial and domain")


@questions.healthy()
def cycle_with_identity_terms() -> Case:
    class Cycle(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.there, self.back = mlp(8, 16, 8), mlp(8, 16, 8)
            self.critics = nn.ModuleDict({"there": mlp(8, 16, 1), "back": mlp(8, 16, 1)})

        def forward(self, x: Tensor) -> Tensor:
            return self.there(x)

    def loss(cycle: nn.Module, batch: Any) -> Tensor:
        one, two = batch
        fake_two, fake_one = cycle.there(one), cycle.back(two)
        again = F.mse_loss(cycle.back(fake_two), one) + F.mse_loss(cycle.there(fake_one), two)
        same = F.mse_loss(cycle.there(two), two) + F.mse_loss(cycle.back(one), one)
        fooled = (cycle.critics["there"](fake_two) - 1).square().mean()
        return (
            fooled + (cycle.critics["back"](fake_one) - 1).square().mean() + 10 * again + 5 * same
        )

    return Case(Cycle(), (rows(8, 8), rows(8, 8, seed=2)), loss)


@questions.fault("gradient-wrong")
def spectral_norm_by_hand() -> Case:
    class SpectralLinear(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            sigma = torch.linalg.matrix_norm(self.weight, ord=2).item()  # fault
            return F.linear(x, self.weight / sigma, self.bias)

    class Critic(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = SpectralLinear(8, 16), SpectralLinear(16, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.second(torch.tanh(self.first(x))).squeeze(-1)

    return Case(Critic(), rows(8, 8), lambda scores: F.softplus(-scores))


@questions.healthy()
def coral_of_both_domains() -> Case:
    class Coral(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.features, self.labels = mlp(8, 24, 6), nn.Linear(6, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.labels(self.features(x))

    def loss(model: nn.Module, batch: Any) -> Tensor:
        source, target, labels = batch
        a, b = model.features(source), model.features(target)
        gap = (torch.cov(a.T) - torch.cov(b.T)).square().sum() / (4 * a.shape[1] ** 2)
        return F.cross_entropy(model.labels(a), labels) + gap

    return Case(Coral(), (rows(9, 8), 2 * rows(9, 8, seed=2), torch.arange(9) % 3), loss)


@questions.fault("graph-cut", "grad-none")
def declared_stop_is_beside_another() -> Case:
    class Gan(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.generator, self.critic = mlp(6, 24, 12), mlp(12, 24, 1)
            self.style = mlp(6, 12, 12)

        def forward(self, noise: Tensor) -> Tensor:
            return self.generator(noise) + self.style(noise)

    def loss(gan: nn.Module, batch: Any) -> Tensor:
        real, noise = batch
        goal = gan.critic(real).detach().mean()
        style = gan.style(noise).detach()  # fault
        fake = gan.generator(noise) + style
        return (gan.critic(fake) - goal).square().mean()

    batch = (rows(8, 12), rows(8, 6, seed=2))
    return Case(Gan(), batch, loss, {"stop_gradients": ("goal = ",)})


@questions.healthy()
def own_activation_with_right_backward() -> Case:
    class Swish(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x * torch.sigmoid(x)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:  # type: ignore[override]
            (x,) = ctx.saved_tensors
            gate = torch.sigmoid(x)
            return grad * gate * (1 + x * (1 - gate))

    class Activation(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return Swish.apply(x)

    critic = nn.Sequential(nn.Linear(8, 24), Activation(), nn.Linear(24, 16), Activation())
    return Case(critic, rows(8, 8), lambda scores: F.softplus(-scores.mean(1)))


@questions.fault("grad-zero", "graph-cut")
def critic_rounds_its_score() -> Case:
    class Critic(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = mlp(8, 24, 1)

        def forward(self, x: Tensor) -> Tensor:
            return torch.round(self.net(x) * 100) / 100  # fault

    return Case(Critic(), rows(8, 8), lambda scores: F.softplus(-scores).mean())


@questions.healthy()
def experts_weighted_by_a_gate() -> Case:
    class Weighted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.experts = nn.ModuleList(mlp(8, 12, 3) for _ in range(2))
            self.gate = nn.Linear(8, 2)

        def forward(self, x: Tensor) -> Tensor:
            share = self.gate(x).softmax(-1)
            outs = torch.stack([expert(x) for expert in self.experts], -1)
            return (outs * share[:, None]).sum(-1)

    return Case(Weighted(), rows(9, 8), lambda out: F.cross_entropy(out, torch.arange(9) % 3))


@questions.fault("stale-forward", "graph-cut", "gradient-wrong", "backward")
def real_features_cached_once() -> Case:
    class Matcher(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.generator, self.features = mlp(6, 24, 12), mlp(12, 24, 8)
            self.real: Tensor | None = None

        def forward(self, noise: Tensor, pictures: Tensor) -> Tensor:
            if self.real is None:
                self.real = self.features(pictures).mean(0).detach()  # fault
            return self.features(self.generator(noise)).mean(0) - self.real  # fault

    batch = (rows(8, 6), rows(8, 12, seed=2))
    return Case(Matcher(), batch, lambda gap: gap.square().sum())


@questions.healthy()
def one_score_for_each_picture() -> Case:
    class PatchCritic(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Conv2d(1, 6, 3), nn.SiLU(), nn.Conv2d(6, 1, 3))

        def forward(self, images: Tensor) -> Tensor:
            return self.net(images)

    def loss(patches: Tensor) -> Tensor:
        goal = torch.ones_like(patches)
        losses = F.binary_cross_entropy_with_logits(patches, goal, reduction="none")
        return losses.mean((1, 2, 3))

    return Case(PatchCritic(), rows(4, 1, 8, 8), loss)

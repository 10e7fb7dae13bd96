"""Generative models: the open half."""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.distributions import Normal
from torch.nn import functional as F

from gradient_check.exam.case import Case, Questions, rows
from gradient_check.exam.second.parts import mlp

questions = Questions("generative with noise")


@questions.healthy()
def energy_by_noise_contrast() -> Case:
    class Energy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = mlp(4, 32, 1)
            self.log_partition = nn.Parameter(torch.zeros(()))

        def forward(self, x: Tensor) -> Tensor:
            return -self.net(x).squeeze(-1) - self.log_partition

    def loss(energy: nn.Module, x: Tensor) -> Tensor:
        noise = torch.randn_like(x)
        prior = Normal(0.0, 1.0)
        on_data = energy(x) - prior.log_prob(x).sum(-1)
        on_noise = energy(noise) - prior.log_prob(noise).sum(-1)
        return F.softplus(-on_data) + F.softplus(on_noise)

    return Case(Energy(), 1.5 * rows(16, 4), loss, {"random_loss": True})


@questions.fault("graph-cut", "no-gradient", "grad-none")
def generated_tokens_are_decoded_first() -> Case:
    class Captioner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.picture, self.cell = nn.Linear(10, 16), nn.GRUCell(8, 16)
            self.words, self.head = nn.Embedding(12, 8), nn.Linear(16, 12)
            self.scorer = nn.EmbeddingBag(12, 1)

        def forward(self, pictures: Tensor) -> Tensor:
            hidden = torch.tanh(3 * self.picture(pictures))
            word = torch.zeros(len(pictures), dtype=torch.long)
            caption = []
            for _ in range(4):
                hidden = self.cell(self.words(word), hidden)
                word = (4 * self.head(hidden)).topk(1, -1).indices.squeeze(-1)  # fault
                caption.append(word)
            return self.scorer(torch.stack(caption, 1)).squeeze(-1)  # fault

    return Case(Captioner(), rows(32, 10), lambda score: F.softplus(-score).mean())


@questions.healthy()
def masked_autoregressive_density() -> Case:
    class MaskedLinear(nn.Linear):
        def __init__(self, mask: Tensor) -> None:
            super().__init__(mask.shape[1], mask.shape[0])
            self.register_buffer("mask", mask.to(self.weight.dtype))

        def forward(self, x: Tensor) -> Tensor:
            return F.linear(x, self.weight * self.mask, self.bias)

    class Made(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            inputs, hidden = torch.arange(1, 5), torch.arange(15) % 3 + 1
            self.first = MaskedLinear(hidden[:, None] >= inputs)
            self.second = MaskedLinear((inputs[:, None] > hidden).repeat(2, 1))

        def forward(self, x: Tensor) -> Tensor:
            mean, log_std = self.second(torch.tanh(self.first(x))).chunk(2, -1)
            return Normal(mean, log_std.exp()).log_prob(x).sum(-1)

    return Case(Made(), rows(16, 4), lambda log_prob: -log_prob)


@questions.fault("unregistered")
def prior_of_components_in_a_list() -> Case:
    class MixtureVae(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.decoder = mlp(10, 24, 3), mlp(3, 24, 10)
            self.means = [nn.Parameter(rows(3, seed=s)) for s in range(3)]  # fault

        def forward(self, x: Tensor) -> Tensor:
            z = self.encoder(x)
            log_probs = torch.stack([-(z - mean).square().sum(-1) for mean in self.means])  # fault
            return (self.decoder(z) - x).square().sum(-1) - log_probs.logsumexp(0)

    return Case(MixtureVae(), rows(12, 10), lambda losses: losses)


@questions.healthy()
def importance_weighted_bound() -> Case:
    class Iwae(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.decoder = mlp(8, 24, 6), mlp(3, 24, 8)

        def forward(self, x: Tensor) -> Normal:
            mean, raw = self.encoder(x).chunk(2, -1)
            return Normal(mean, F.softplus(raw) + 0.1)

    def loss(model: nn.Module, x: Tensor) -> Tensor:
        posterior = model(x)
        z = posterior.rsample(torch.Size([5]))
        joint = Normal(0.0, 1.0).log_prob(z).sum(-1)
        joint = joint + Normal(model.decoder(z), 1.0).log_prob(x).sum(-1)
        weights = joint - posterior.log_prob(z).sum(-1)
        return -(weights.logsumexp(0) - math.log(5))

    return Case(Iwae(), rows(8, 8), loss, {"random_loss": True})


@questions.fault("gradient-wrong")
def squash_backward_forgets_its_input() -> Case:
    class Squash(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, scale: Tensor) -> Tensor:
            ctx.save_for_backward(x, scale)
            return torch.tanh(x * scale)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
            x, scale = ctx.saved_tensors
            slope = grad * (1 - torch.tanh(x * scale).square())
            return slope * scale, slope.sum(0)  # fault: not times x

    class Coder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.decoder = mlp(10, 24, 4), mlp(4, 24, 10)
            self.scale = nn.Parameter(torch.full((4,), 1.5))

        def forward(self, x: Tensor) -> Tensor:
            return self.decoder(Squash.apply(self.encoder(x), self.scale))  # fault

    goals = rows(16, 10)
    return Case(Coder(), goals, lambda again: (again - goals).square().mean())


@questions.healthy("random-inference")
def antithetic_noise() -> Case:
    class Vae(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mean, self.log_std, self.decoder = (
                nn.Linear(10, 4),
                nn.Linear(10, 4),
                mlp(4, 24, 10),
            )

        def forward(self, x: Tensor) -> Tensor:
            mean, std = self.mean(x), self.log_std(x).exp()
            noise = torch.randn_like(std) * std
            plus, minus = mean + noise, mean - noise
            error = (self.decoder(plus) - x).square() + (self.decoder(minus) - x).square()
            return (
                error.sum(-1) / 2 + 0.5 * (mean.square() + std.square()).sum(-1) - std.log().sum(-1)
            )

    return Case(Vae(), rows(12, 10), lambda losses: losses, {"random_loss": True})

"""Generative models: the open half."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gradient_check.exam.case import Case, Questions, numbers, rows
from gradient_check.exam.second.parts import mlp

questions = Questions("generative with noise")


@questions.fault("graph-cut", "gradient-wrong", "grad-none")
def vae_samples_without_reparametrisation() -> Case:
    class Vae(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.decoder = mlp(10, 24, 8), mlp(4, 24, 10)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            mean, log_var = self.encoder(x).chunk(2, -1)
            z = torch.normal(mean, (0.5 * log_var).exp()).detach()  # fault
            return self.decoder(z), mean, log_var

    def loss(model: nn.Module, x: Tensor) -> Tensor:
        again, mean, log_var = model(x)
        divergence = -0.5 * (1 + log_var - mean.square() - log_var.exp()).sum(-1)
        return (again - x).square().sum(-1) + divergence

    return Case(Vae(), rows(8, 10), loss, {"random_loss": True})


@questions.healthy("random-inference")
def plain_vae() -> Case:
    class Vae(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.decoder = mlp(10, 24, 8), mlp(4, 24, 10)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            mean, log_var = self.encoder(x).chunk(2, -1)
            z = mean + torch.randn_like(mean) * (0.5 * log_var).exp()
            return self.decoder(z), mean, log_var

    def loss(model: nn.Module, x: Tensor) -> Tensor:
        again, mean, log_var = model(x)
        divergence = -0.5 * (1 + log_var - mean.square() - log_var.exp()).sum(-1)
        return F.mse_loss(again, x, reduction="none").sum(-1) + divergence

    return Case(Vae(), rows(8, 10), loss, {"random_loss": True})


@questions.fault("graph-cut", "grad-none")
def codes_without_straight_through() -> Case:
    class VqVae(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.decoder = mlp(10, 24, 4), mlp(4, 24, 10)
            self.codebook = nn.Embedding(6, 4)

        def forward(self, x: Tensor) -> Tensor:
            z = self.encoder(x)
            nearest = torch.cdist(z, self.codebook.weight).argmin(-1)  # fault
            return self.decoder(self.codebook(nearest))

    goals = rows(64, 10)
    return Case(VqVae(), 3 * goals, lambda again: (again - goals).square().mean())


@questions.healthy("surrogate", "rough")
def vq_vae_declared() -> Case:
    class Quantizer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.codebook = nn.Parameter(rows(6, 4, seed=3))

        def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
            picked = self.codebook[torch.cdist(z, self.codebook).argmin(-1)]
            commitment = (picked.detach() - z).square().sum(-1)
            moved = (picked - z.detach()).square().sum(-1)
            return z + (picked - z).detach(), 0.25 * commitment + moved

    class VqVae(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.decoder = mlp(10, 24, 4), mlp(4, 24, 10)
            self.quantizer = Quantizer()

        def forward(self, x: Tensor) -> Tensor:
            quantized, extra = self.quantizer(self.encoder(x))
            return (self.decoder(quantized) - x).square().sum(-1) + extra

    options = {
        "stop_gradients": ("picked.detach()", "z.detach()"),
        "surrogate_gradients": ("quantizer",),
    }
    return Case(VqVae(), rows(8, 10), lambda losses: losses, options)


@questions.fault("graph-cut", "grad-zero", "grad-none")
def time_embedding_of_whole_numbers() -> Case:
    class Denoiser(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.warp = nn.Parameter(torch.tensor(3.0))
            self.table, self.net = nn.Embedding(64, 8), mlp(12, 32, 4)

        def forward(self, x: Tensor, t: Tensor) -> Tensor:
            slot = (63 * t**self.warp).long()  # fault
            return self.net(torch.cat([x, self.table(slot)], -1))

    def loss(model: nn.Module, batch: Any) -> Tensor:
        x, t, noise = batch
        noisy = (1 - t)[:, None].sqrt() * x + t[:, None].sqrt() * noise
        return (model(noisy, t) - noise).square().mean(1)

    batch = (rows(32, 4), torch.linspace(0.05, 0.95, 32), rows(32, 4, seed=2))
    return Case(Denoiser(), batch, loss)


@questions.healthy()
def diffusion_predicts_the_noise() -> Case:
    class Denoiser(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("alpha_bar", torch.cumprod(1 - torch.linspace(1e-3, 0.2, 20), 0))
            self.time, self.net = nn.Embedding(20, 8), mlp(12, 32, 4)

        def forward(self, x: Tensor, t: Tensor) -> Tensor:
            return self.net(torch.cat([x, self.time(t)], -1))

    def loss(model: nn.Module, batch: Any) -> Tensor:
        x, t = batch
        noise = torch.randn_like(x)
        kept = model.alpha_bar[t][:, None]
        return (model(kept.sqrt() * x + (1 - kept).sqrt() * noise, t) - noise).square().mean(1)

    return Case(Denoiser(), (rows(16, 4), numbers(20, 16)), loss, {"random_loss": True})


@questions.fault("gradient-wrong")
def self_conditioning_undeclared() -> Case:
    class Denoiser(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = mlp(9, 32, 4)

        def forward(self, x: Tensor, t: Tensor, before: Tensor) -> Tensor:
            return self.net(torch.cat([x, before, t[:, None]], -1))

    def loss(model: nn.Module, batch: Any) -> Tensor:
        x, t, noise = batch
        noisy = (1 - t)[:, None] * x + t[:, None] * noise
        guess = model(noisy, t, torch.zeros_like(x))
        guess = 3 * guess.detach()  # fault
        return (model(noisy, t, guess) - x).square().mean(1)

    batch = (rows(16, 4), torch.linspace(0.05, 0.95, 16), rows(16, 4, seed=2))
    return Case(Denoiser(), batch, loss)


@questions.healthy()
def guidance_with_dropped_labels() -> Case:
    class Denoiser(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.labels, self.nothing = nn.Embedding(3, 6), nn.Parameter(rows(6, seed=3))
            self.net = mlp(10, 32, 4)

        def forward(self, x: Tensor, label: Tensor, drop: Tensor) -> Tensor:
            context = torch.where(drop[:, None], self.nothing, self.labels(label))
            return self.net(torch.cat([x, context], -1))

    goals = rows(12, 4, seed=2)
    batch = (rows(12, 4), numbers(3, 12), torch.arange(12) % 4 == 0)
    return Case(Denoiser(), batch, lambda noise: (noise - goals).square().mean(1))

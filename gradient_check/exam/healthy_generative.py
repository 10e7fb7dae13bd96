"""Healthy models that generate, contrast or rank."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gradient_check.exam.case import Case, Questions, numbers, rows
from gradient_check.exam.healthy_pictures import VALUES

questions = Questions("healthy")
PICTURES = rows(3, 3, 8, 8)


@questions.healthy()
def a_mixture_density() -> Case:
    net = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 9))

    def loss(output: Tensor) -> Tensor:
        shares, means, spreads = output.split(3, 1)
        logs = torch.distributions.Normal(means, spreads.exp()).log_prob(rows(6, 1))
        return -torch.logsumexp(shares.log_softmax(1) + logs, 1)

    return Case(net, VALUES, loss)


@questions.healthy("random-loss")
def a_variational_autoencoder() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.decoder = nn.Linear(5, 6), nn.Linear(3, 5)

        def forward(self, values: Tensor) -> Tensor:
            mean, logarithm = self.encoder(values).chunk(2, 1)
            normal = torch.distributions.Normal(mean, (0.5 * logarithm).exp())
            prior = torch.distributions.Normal(torch.zeros(3), torch.ones(3))
            divergence = torch.distributions.kl_divergence(normal, prior).sum(1)
            return (self.decoder(normal.rsample()) - values).square().sum(1) + divergence

    return Case(Net(), VALUES, lambda losses: losses, {"serve_mode": "no_grad"})


@questions.healthy("random-loss")
def a_denoiser_with_random_steps() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.time, self.net = nn.Embedding(10, 8), nn.Linear(5, 8)
            self.out = nn.Linear(8, 5)
            self.register_buffer("kept", torch.linspace(0.99, 0.1, 10))

        def forward(self, values: Tensor) -> Tensor:
            step, noise = torch.randint(10, (len(values),)), torch.randn_like(values)
            kept = self.kept[step][:, None]
            hidden = self.net(kept.sqrt() * values + (1 - kept).sqrt() * noise) + self.time(step)
            return (self.out(F.silu(hidden)) - noise).square()

    return Case(Net(), VALUES)


@questions.healthy()
def a_flow_of_affine_couplings() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.nets = nn.ModuleList(nn.Linear(3, 6) for _ in range(3))

        def forward(self, values: Tensor) -> Tensor:
            volume = values.new_zeros(len(values))
            for net in self.nets:
                left, right = values.chunk(2, 1)
                scale, shift = net(left).chunk(2, 1)
                values = torch.cat((right * scale.tanh().exp() + shift, left), 1)
                volume = volume + scale.tanh().sum(1)
            return 0.5 * values.square().sum(1) - volume

    return Case(Net(), rows(5, 6), lambda losses: losses)


@questions.healthy("random-loss")
def contrast_of_two_views() -> Case:
    net = nn.Sequential(nn.Linear(5, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4))

    def loss(module: nn.Module, probe: Tensor) -> Tensor:
        views = [F.normalize(module(probe + 0.1 * torch.randn_like(probe))) for _ in range(2)]
        return F.cross_entropy(views[0] @ views[1].T / 0.1, torch.arange(6), reduction="none")

    return Case(net, VALUES, loss)


@questions.healthy()
def a_triplet_margin() -> Case:
    net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 4))

    def loss(module: nn.Module, probe: Tensor) -> Tensor:
        anchor, near, far = (module(probe.roll(shift, 0)) for shift in range(3))
        return F.triplet_margin_loss(anchor, near, far, margin=1.0, reduction="none")

    return Case(net, VALUES, loss)


@questions.healthy()
def pairs_in_the_right_order() -> Case:
    def loss(scores: Tensor) -> Tensor:
        return F.softplus(-(scores[:, None] - scores)[..., 0] * numbers(2, 6, 6)).mean(1)

    return Case(nn.Sequential(nn.Linear(5, 8), nn.ELU(), nn.Linear(8, 1)), VALUES, loss)

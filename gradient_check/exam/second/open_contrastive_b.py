"""Contrastive and self-supervised learning: the open half."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional as F

from gradient_check.exam.case import Case, Questions, numbers, rows
from gradient_check.exam.second.parts import mlp

questions = Questions("contrastive and self-supervised")


@questions.healthy("dead")
def vicreg_three_terms() -> Case:
    class VicReg(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.expander = mlp(10, 20, 12), mlp(12, 20, 10)

        def forward(self, x: Tensor) -> Tensor:
            return self.expander(self.encoder(x))

    def off_diagonal(z: Tensor) -> Tensor:
        z = z - z.mean(0)
        covariance = z.T @ z / (len(z) - 1)
        return covariance.flatten()[:-1].view(9, 11)[:, 1:].square().sum() / 10

    def loss(model: nn.Module, views: Any) -> Tensor:
        one, two = (model(view) for view in views)
        spread = sum(F.softplus(1 - (z.var(0) + 1e-4).sqrt()).mean() for z in (one, two))
        return 25 * F.mse_loss(one, two) + 12.5 * spread + off_diagonal(one) + off_diagonal(two)

    base = rows(16, 10)
    return Case(VicReg(), (base, base + 0.5 * rows(16, 10, seed=2)), loss)


@questions.fault("alternating", "base-changed", "replica", "stale-forward")
def centre_moves_with_each_call() -> Case:
    class Head(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.student = mlp(10, 24, 12)
            self.register_buffer("centre", torch.zeros(12))

        def forward(self, x: Tensor) -> Tensor:
            logits = self.student(x)
            self.centre.mul_(0.5).add_(0.5 * (logits.detach().mean(0) + 0.7))  # fault
            return ((logits - self.centre) / 0.1).log_softmax(-1)  # fault

    def loss(log_probs: Tensor) -> Tensor:
        return -(log_probs * torch.linspace(0, 1, 12).softmax(-1)).sum(-1).mean()

    return Case(Head(), rows(6, 10), loss)


@questions.healthy()
def triplet_with_hard_mining() -> Case:
    class Embedder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = mlp(10, 24, 6)

        def forward(self, x: Tensor) -> Tensor:
            return F.normalize(self.net(x), dim=-1)

    def loss(embedder: nn.Module, batch: Any) -> Tensor:
        x, labels = batch
        z = embedder(x)
        distance = (z[:, None] - z[None]).square().sum(-1)
        same = labels[:, None] == labels[None]
        with torch.no_grad():
            far = distance.masked_fill(~same, -1.0).argmax(1, keepdim=True)
            near = distance.masked_fill(same, 9.0).argmin(1, keepdim=True)
        gap = distance.gather(1, far) - distance.gather(1, near)
        return F.softplus(gap).mean()

    return Case(Embedder(), (rows(9, 10), torch.arange(9) % 3), loss)


@questions.fault("graph-cut", "no-gradient", "grad-none")
def prototypes_stacked_as_numbers() -> Case:
    class Matching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.support_net, self.query_net = mlp(8, 16, 6), mlp(8, 16, 6)

        def forward(self, support: Tensor, query: Tensor) -> Tensor:
            means = self.support_net(support.flatten(0, 1)).unflatten(0, support.shape[:2]).mean(1)
            prototypes = torch.tensor([[float(v) for v in mean] for mean in means])  # fault
            return -torch.cdist(self.query_net(query), prototypes)

    labels = numbers(3, 9)
    return Case(
        Matching(),
        (rows(3, 4, 8), rows(9, 8, seed=2)),
        lambda logits: F.cross_entropy(logits, labels),
    )


@questions.healthy("dead")
def distance_with_an_epsilon() -> Case:
    def loss(model: nn.Module, batch: Any) -> Tensor:
        x, labels = batch
        z = model(x)
        distance = ((z[:, None] - z[None]).square().sum(-1) + 1e-2).sqrt()
        same = labels[:, None] == labels[None]
        positive = (distance * same).sum(1) / same.sum(1)
        negative = (distance * ~same).sum(1) / (~same).sum(1)
        return F.softplus(positive - negative + 0.2).mean()

    return Case(mlp(10, 24, 6), (rows(9, 10), torch.arange(9) % 3), loss)


@questions.fault("gradient-wrong")
def normalisation_backward_by_hand() -> Case:
    class UnitLength(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            length = x.norm(dim=-1, keepdim=True)
            ctx.save_for_backward(x / length, length)
            return x / length

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:  # type: ignore[override]
            unit, length = ctx.saved_tensors
            return grad / length  # fault: the part along the vector stays in

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = mlp(10, 24, 6)

        def forward(self, x: Tensor) -> Tensor:
            return UnitLength.apply(self.net(x))  # fault

    def loss(z: Tensor) -> Tensor:
        logits = (z @ z.T / 0.5).masked_fill(torch.eye(len(z), dtype=torch.bool), -1e4)
        return F.cross_entropy(logits, torch.arange(len(z)).roll(1))

    return Case(Encoder(), rows(8, 10), loss)


@questions.healthy()
def masked_autoencoder() -> Case:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Linear(6, 16)
            self.mask_token = nn.Parameter(0.02 * rows(16, seed=3))
            self.position = nn.Parameter(0.2 * rows(8, 16, seed=4))
            self.block = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
            self.out = nn.Linear(16, 6)

        def forward(self, patches: Tensor, hidden: Tensor) -> Tensor:
            x = torch.where(hidden[..., None], self.mask_token, self.embed(patches))
            return self.out(self.block(x + self.position))

    def loss(model: nn.Module, batch: Any) -> Tensor:
        patches, hidden = batch
        error = (model(patches, hidden) - patches).square().mean(-1)
        return (error * hidden).sum(1) / hidden.sum(1)

    hidden = torch.tensor([[True, False] * 4, [False, True, True, False] * 2])
    return Case(Masked(), (rows(2, 8, 6), hidden), loss)

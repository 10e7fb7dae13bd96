"""Contrastive and self-supervised learning: the open half."""

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gradient_check.exam.case import Case, Questions, rows
from gradient_check.exam.second.parts import mlp

questions = Questions("contrastive and self-supervised")


@questions.fault("gradient-wrong")
def negatives_of_infonce_detached() -> Case:
    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = mlp(10, 24, 8)

        def forward(self, x: Tensor) -> Tensor:
            return F.normalize(self.net(x), dim=-1)

    def loss(encoder: nn.Module, views: Any) -> Tensor:
        one, two = (encoder(view) for view in views)
        positive = (one * two).sum(-1, keepdim=True)
        negative = one @ two.detach().T  # fault
        mask = torch.eye(len(one), dtype=torch.bool)
        logits = torch.cat([positive, negative.masked_fill(mask, -9.0)], 1) / 0.2
        return F.cross_entropy(logits, torch.zeros(len(one), dtype=torch.long))

    base = rows(8, 10)
    return Case(Encoder(), (base, base + 0.3 * rows(8, 10, seed=2)), loss)


@questions.healthy()
def clip_both_ways() -> Case:
    class Clip(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.image, self.text = mlp(12, 16, 8), nn.Linear(9, 8)
            self.logit_scale = nn.Parameter(torch.tensor(2.0))

        def forward(self, images: Tensor, texts: Tensor) -> Tensor:
            a = F.normalize(self.image(images), dim=-1)
            b = F.normalize(self.text(texts), dim=-1)
            return a @ b.T * self.logit_scale.exp().clamp(max=100)

    def loss(logits: Tensor) -> Tensor:
        pairs = torch.arange(len(logits))
        return (F.cross_entropy(logits, pairs) + F.cross_entropy(logits.T, pairs)) / 2

    return Case(Clip(), (rows(6, 12), rows(6, 9, seed=2)), loss)


@questions.fault("gradient-wrong")
def simsiam_stop_undeclared() -> Case:
    class SimSiam(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.predictor = mlp(10, 24, 8), mlp(8, 12, 8)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            z = self.encoder(x)
            return self.predictor(z), z

    def loss(model: nn.Module, views: Any) -> Tensor:
        (p1, z1), (p2, z2) = (model(view) for view in views)
        left = F.cosine_similarity(p1, z2.detach(), dim=-1)  # fault
        right = F.cosine_similarity(p2, z1.detach(), dim=-1)  # fault
        return -(left + right).mean() / 2

    base = rows(8, 10)
    return Case(SimSiam(), (base, base + 0.5 * rows(8, 10, seed=2)), loss)


@questions.healthy()
def simsiam_declared() -> Case:
    class SimSiam(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Sequential(
                nn.Linear(10, 24), nn.LayerNorm(24), nn.SiLU(), nn.Linear(24, 8)
            )
            self.predictor = mlp(8, 12, 8)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            z = self.encoder(x)
            return self.predictor(z), z.detach()

    def loss(model: nn.Module, views: Any) -> Tensor:
        (p1, z1), (p2, z2) = (model(view) for view in views)
        return -(F.cosine_similarity(p1, z2) + F.cosine_similarity(p2, z1)) / 2

    base = rows(8, 10)
    views = (base, base + 0.5 * rows(8, 10, seed=2))
    return Case(SimSiam(), views, loss, {"stop_gradients": ("z.detach()",)})


@questions.fault("alternating", "base-changed", "replica", "stale-forward", "gradient-wrong")
def queue_filled_in_forward() -> Case:
    class Moco(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.query = mlp(10, 24, 8)
            self.register_buffer("queue", F.normalize(rows(12, 8, seed=9), dim=-1))
            self.register_buffer("pointer", torch.zeros((), dtype=torch.long))

        def forward(self, x: Tensor) -> Tensor:
            q = F.normalize(self.query(x), dim=-1)
            logits = q @ self.queue.clone().T / 0.2
            slots = (self.pointer + torch.arange(len(x))) % len(self.queue)
            self.queue[slots] = q.detach()  # fault
            self.pointer.copy_((self.pointer + len(x)) % len(self.queue))  # fault
            return logits.logsumexp(-1)

    return Case(Moco(), rows(4, 10), lambda energy: energy.mean())


@questions.healthy("frozen")
def moco_with_a_filled_queue() -> Case:
    class Moco(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.query = mlp(10, 24, 8)
            self.key = copy.deepcopy(self.query)
            self.key.requires_grad_(False)
            self.register_buffer("queue", F.normalize(rows(32, 8, seed=9), dim=-1))

        def forward(self, x: Tensor) -> Tensor:
            return F.normalize(self.query(x), dim=-1)

    def loss(moco: nn.Module, views: Any) -> Tensor:
        q = moco(views[0])
        with torch.no_grad():
            k = F.normalize(moco.key(views[1]), dim=-1)
        positive = (q * k).sum(-1, keepdim=True)
        logits = torch.cat([positive, q @ moco.queue.T], 1) / 0.2
        return logits.logsumexp(1) - logits[:, 0]

    base = rows(6, 10)
    views = (base, base + 0.2 * rows(6, 10, seed=2))
    return Case(Moco(), views, loss, {"stop_gradients": (r"key\.\d+\.(weight|bias)", "key")})


@questions.fault("gradient-wrong")
def standard_deviation_as_a_constant() -> Case:
    def normalised(z: Tensor) -> Tensor:
        with torch.no_grad():  # fault
            std = z.std(0) + 1e-5  # fault
        return (z - z.mean(0)) / std

    def loss(model: nn.Module, views: Any) -> Tensor:
        one, two = (normalised(model(view)) for view in views)
        cross = one.T @ two / len(one)
        return (cross - torch.eye(len(cross))).square().sum()

    base = rows(16, 10)
    return Case(mlp(10, 24, 6), (base, base + 0.5 * rows(16, 10, seed=2)), loss)

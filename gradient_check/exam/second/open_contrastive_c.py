"""Contrastive and self-supervised learning: the open half."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional as F

from gradient_check.exam.case import Case, Questions, rows
from gradient_check.exam.second.parts import mlp

questions = Questions("contrastive and self-supervised")


@questions.fault("graph-cut", "grad-none")
def masked_positions_overwritten() -> Case:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Linear(6, 16)
            self.mask_token = nn.Parameter(0.5 * rows(16, seed=3))
            self.out = mlp(16, 16, 6)

        def forward(self, patches: Tensor, hidden: Tensor) -> Tensor:
            x = self.embed(patches)
            x[hidden] = self.mask_token.data  # fault
            return self.out(x + x.mean(1, keepdim=True))

    def loss(model: nn.Module, batch: Any) -> Tensor:
        patches, hidden = batch
        return (model(patches, hidden) - patches).square().flatten(1).mean(1)

    hidden = torch.tensor([[True, False] * 4, [False, True, True, False] * 2])
    return Case(Masked(), (rows(2, 8, 6), hidden), loss)


@questions.healthy()
def swav_with_sinkhorn() -> Case:
    class Swav(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = mlp(10, 24, 8)
            self.prototypes = nn.Linear(8, 5, bias=False)

        def forward(self, x: Tensor) -> Tensor:
            return self.prototypes(F.normalize(self.encoder(x), dim=-1))

    @torch.no_grad()
    def sinkhorn(scores: Tensor) -> Tensor:
        plan = (scores / 0.5).exp()
        for _ in range(3):
            plan = plan / plan.sum(0, keepdim=True) / plan.shape[1]
            plan = plan / plan.sum(1, keepdim=True) / plan.shape[0]
        return plan * plan.shape[0]

    def loss(model: nn.Module, views: Any) -> Tensor:
        one, two = (model(view) for view in views)
        codes_one, codes_two = sinkhorn(one), sinkhorn(two)
        cross = (codes_one * (two / 0.3).log_softmax(1)).sum(1)
        return -(cross + (codes_two * (one / 0.3).log_softmax(1)).sum(1)).mean()

    base = rows(10, 10)
    views = (base, base + 0.3 * rows(10, 10, seed=2))
    return Case(Swav(), views, loss, {"stop_gradients": ("codes_one, codes_two =",)})


@questions.fault("gradient-wrong")
def uniformity_of_one_side() -> Case:
    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = mlp(10, 24, 6)

        def forward(self, x: Tensor) -> Tensor:
            return F.normalize(self.net(x), dim=-1)

    def uniformity(z: Tensor) -> Tensor:
        others = z.clone().detach()  # fault
        return (-2 * torch.cdist(z, others).square()).exp().mean().log()

    def loss(encoder: nn.Module, views: Any) -> Tensor:
        one, two = (encoder(view) for view in views)
        return (one - two).square().sum(-1).mean() + 3 * uniformity(one)

    base = rows(8, 10)
    return Case(Encoder(), (base, base + 0.3 * rows(8, 10, seed=2)), loss)


@questions.healthy()
def soft_cluster_assignment() -> Case:
    class Clusters(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = mlp(10, 24, 6)
            self.centres = nn.Parameter(rows(4, 6, seed=3))

        def forward(self, x: Tensor) -> Tensor:
            distance = torch.cdist(self.encoder(x), self.centres).square()
            q = 1 / (1 + distance)
            return q / q.sum(1, keepdim=True)

    def loss(q: Tensor) -> Tensor:
        sharp = q.square() / q.sum(0)
        goal = (sharp / sharp.sum(1, keepdim=True)).detach()
        return (goal * (goal.log() - q.log())).sum(1).mean()

    return Case(Clusters(), rows(12, 10), loss, {"stop_gradients": ("goal = ",)})


@questions.fault("unregistered", "not-optimized", "graph-cut")
def heads_kept_in_a_dict() -> Case:
    class MultiCrop(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.backbone = mlp(10, 24, 12)
            self.heads = {"global": nn.Linear(12, 6), "local": nn.Linear(12, 6)}  # fault

        def forward(self, x: Tensor) -> Tensor:
            hidden = self.backbone(x)
            whole, local = self.heads["global"](hidden), self.heads["local"](hidden)  # fault
            return torch.cat([whole, local], -1)

    return Case(MultiCrop(), rows(6, 10))


@questions.healthy()
def gathered_embeddings_summed() -> Case:
    class GatherLayer(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return torch.cat([x, x.flip(0)])

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:  # type: ignore[override]
            own, other = grad.chunk(2)
            return own + other.flip(0)

    def loss(model: nn.Module, views: Any) -> Tensor:
        one, two = (F.normalize(model(view), dim=-1) for view in views)
        logits = one @ GatherLayer.apply(two).T
        return F.cross_entropy(logits / 0.3, torch.arange(len(one)))

    base = rows(6, 10)
    return Case(mlp(10, 24, 6), (base, base + 0.3 * rows(6, 10, seed=2)), loss)


@questions.fault("gradient-wrong")
def projection_trained_on_scaled_features() -> Case:
    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.backbone, self.head = mlp(10, 24, 8), nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            hidden = self.backbone(x)
            if hidden.requires_grad:
                hidden.register_hook(lambda grad: grad * 0.9)  # fault
            return F.normalize(self.head(hidden), dim=-1)

    def loss(z: Tensor) -> Tensor:
        logits = (z @ z.T / 0.5).masked_fill(torch.eye(len(z), dtype=torch.bool), -1e4)
        return F.cross_entropy(logits, torch.arange(len(z)).roll(1))

    return Case(Encoder(), rows(8, 10), loss)


@questions.healthy()
def deep_infomax_with_a_critic() -> Case:
    class Infomax(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.local, self.whole = nn.Conv2d(1, 8, 3), nn.Linear(8, 8)
            self.critic = nn.Bilinear(8, 8, 1)

        def forward(self, images: Tensor) -> Tensor:
            local = torch.tanh(self.local(images)).flatten(2).transpose(1, 2)
            whole = self.whole(local.mean(1))
            pairs = whole[None].expand(len(local), -1, -1)[:, :, None].expand(-1, -1, 16, -1)
            cells = local[:, None].expand(-1, len(local), -1, -1)
            return self.critic(cells.contiguous(), pairs.contiguous()).squeeze(-1)

    def loss(scores: Tensor) -> Tensor:
        own = torch.eye(len(scores), dtype=torch.bool)
        return F.softplus(-scores[own]).mean() + F.softplus(scores[~own]).mean()

    return Case(Infomax(), rows(4, 1, 6, 6), loss)

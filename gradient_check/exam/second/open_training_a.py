"""Wrappers of training code: the open half."""

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn import functional as F
from torch.nn.utils import parametrize
from torch.utils.checkpoint import checkpoint

from gradient_check.exam.case import Case, Questions, numbers, rows
from gradient_check.exam.second.parts import mlp

questions = Questions("wrappers of training")


@questions.fault("alternating", "base-changed", "replica", "stale-forward", "race")
def average_moves_in_the_forward() -> Case:
    class MeanTeacher(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.student = mlp(6, 16, 3)
            self.register_buffer("shadow", torch.zeros(3, 16))

        def forward(self, x: Tensor) -> Tensor:
            self.shadow.lerp_(self.student[-1].weight.detach(), 0.3)  # fault
            return self.student(x) + F.linear(torch.tanh(self.student[0](x)), self.shadow)  # fault

    return Case(MeanTeacher(), rows(8, 6))


@questions.healthy("frozen")
def mean_teacher_declared() -> Case:
    class MeanTeacher(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.student = mlp(6, 24, 3)
            self.teacher = copy.deepcopy(self.student)
            for parameter in self.teacher.parameters():
                parameter.requires_grad_(False)
                parameter.mul_(0.9)

        def forward(self, x: Tensor) -> Tensor:
            return self.student(x)

    def loss(model: nn.Module, batch: Any) -> Tensor:
        x, noisy, labels = batch
        logits = model(noisy)
        with torch.no_grad():
            wanted = model.teacher(x).softmax(-1)
        agreement = (logits.softmax(-1) - wanted).square().sum(-1)
        return F.cross_entropy(logits, labels, reduction="none") + 2 * agreement

    base = rows(8, 6)
    batch = (base, base + 0.3 * rows(8, 6, seed=2), numbers(3, 8))
    return Case(MeanTeacher(), batch, loss, {"stop_gradients": ("teacher",)})


@questions.fault("graph-cut", "grad-none", "train-forward")
def reentrant_checkpoint_behind_plain_inputs() -> Case:
    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = mlp(8, 16, 12)
            self.head = nn.Linear(12, 3)

        def forward(self, x: Tensor) -> Tensor:
            hidden = checkpoint(self.body, x, use_reentrant=True)  # fault
            return self.head(torch.tanh(hidden))

    return Case(Classifier(), rows(6, 8))


@questions.healthy()
def ensemble_by_vmap() -> Case:
    class Ensemble(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(0.4 * rows(3, 4, 6, seed=1))
            self.bias = nn.Parameter(0.1 * rows(3, 4, seed=2))
            self.head = nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            outs = vmap(F.linear, in_dims=(None, 0, 0))(x, self.weight, self.bias)
            return self.head(torch.tanh(outs).mean(0))

    return Case(Ensemble(), rows(8, 6))


@questions.fault("graph-cut", "grad-none")
def functional_call_with_state_dict() -> Case:
    class Shifted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = mlp(6, 16, 3)
            self.shift = nn.Parameter(torch.tensor(0.1))

        def forward(self, x: Tensor) -> Tensor:
            weights = {name: w + self.shift for name, w in self.net.state_dict().items()}  # fault
            return functional_call(self.net, weights, (x,))

    return Case(Shifted(), rows(8, 6))


@questions.healthy()
def low_rank_by_hand() -> Case:
    class Lora(nn.Module):
        def __init__(self, base: nn.Linear, rank: int = 4) -> None:
            super().__init__()
            self.base = base
            self.down = nn.Parameter(rows(rank, base.in_features) / 3)
            self.up = nn.Parameter(torch.zeros(base.out_features, rank))

        def forward(self, x: Tensor) -> Tensor:
            return self.base(x) + 2 * (x @ self.down.T) @ self.up.T

    frozen = nn.Linear(6, 16).requires_grad_(False)
    return Case(nn.Sequential(Lora(frozen), nn.Tanh(), nn.Linear(16, 3)), rows(8, 6))


@questions.fault("stale-forward", "backward", "graph-cut", "gradient-wrong")
def normalised_weight_made_once() -> Case:
    class Normed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.raw = nn.Parameter(0.5 * rows(8, 6))
            self.gain = nn.Parameter(torch.ones(8, 1))
            self.out = nn.Linear(8, 2)
            self.ready: Tensor | None = None

        def forward(self, x: Tensor) -> Tensor:
            if self.ready is None:
                self.ready = self.gain * F.normalize(self.raw, dim=1)  # fault
            return self.out(torch.tanh(x @ self.ready.T))  # fault

    return Case(Normed(), rows(8, 6))


@questions.healthy()
def own_parametrisation() -> Case:
    class Symmetric(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.triu() + x.triu(1).T

    class Positive(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.softplus(x)

    first, second = nn.Linear(6, 6), nn.Linear(6, 2)
    parametrize.register_parametrization(first, "weight", Symmetric())
    parametrize.register_parametrization(second, "weight", Positive())
    return Case(nn.Sequential(first, nn.Tanh(), second), rows(8, 6))


@questions.fault("graph-cut", "grad-none", "not-optimized")
def hypernetwork_loads_the_weights() -> Case:
    class Hyper(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tasks = nn.Embedding(4, 5)
            self.maker = mlp(5, 16, 6 * 3)
            self.main = nn.Linear(6, 3)

        def forward(self, x: Tensor, task: Tensor) -> Tensor:
            made = self.maker(self.tasks(task).mean(0)).view(3, 6)
            return F.linear(x, made.detach().clone(), self.main.bias) + self.main(x)  # fault

    return Case(Hyper(), (rows(8, 6), torch.arange(8) % 4))


@questions.healthy()
def uncertainty_weights() -> Case:
    class MultiTask(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.torso = mlp(6, 24, 12)
            self.heads = nn.ModuleDict({"kind": nn.Linear(12, 3), "size": nn.Linear(12, 1)})
            self.log_variance = nn.ParameterDict(
                {"kind": nn.Parameter(torch.tensor(0.2)), "size": nn.Parameter(torch.tensor(-0.3))}
            )

        def forward(self, x: Tensor) -> dict[str, Tensor]:
            hidden = torch.tanh(self.torso(x))
            return {name: head(hidden) for name, head in self.heads.items()}

    def loss(model: nn.Module, batch: Any) -> Tensor:
        x, labels, goals = batch
        found = model(x)
        kind = F.cross_entropy(found["kind"], labels)
        size = F.mse_loss(found["size"].squeeze(-1), goals)
        weights = model.log_variance
        total = kind * torch.exp(-weights["kind"]) + weights["kind"]
        return total + 0.5 * (size * torch.exp(-weights["size"]) + weights["size"])

    return Case(MultiTask(), (rows(8, 6), numbers(3, 8), rows(8, seed=2)), loss)


@questions.fault("gradient-wrong")
def manifold_mixup_of_a_cut_partner() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.low, self.high = mlp(6, 24, 12), mlp(12, 16, 3)

        def forward(self, x: Tensor) -> Tensor:
            hidden = self.low(x)
            partner = torch.empty_like(hidden).copy_(hidden.data).flip(0)  # fault
            return self.high(torch.tanh(0.6 * hidden + 0.4 * partner))

    goals = torch.arange(8) % 3
    return Case(Net(), rows(8, 6), lambda logits: F.cross_entropy(logits, goals))


@questions.healthy("frozen")
def distilled_from_a_frozen_teacher() -> Case:
    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.teacher = mlp(6, 24, 3).requires_grad_(False)
            self.student = mlp(6, 8, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.student(x)

    def loss(pair: nn.Module, batch: Any) -> Tensor:
        x, labels = batch
        logits = pair(x)
        with torch.no_grad():
            soft = (pair.teacher(x) / 2).softmax(-1)
        gap = F.kl_div((logits / 2).log_softmax(-1), soft, reduction="none").sum(-1) * 4
        return 0.5 * gap + 0.5 * F.cross_entropy(logits, labels, reduction="none")

    options = {"stop_gradients": (r"teacher\.\d\.\w+", "soft = ")}
    return Case(Pair(), (rows(8, 6), numbers(3, 8)), loss, options)

"""Healthy models of graphs and tables, and healthy ways to train."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional as F

from gradient_check.exam.case import Case, Questions, numbers, off_target, rows
from gradient_check.exam.healthy_sequences import IDS, TABLE

questions = Questions("healthy")
SERIES = rows(3, 6, 4)


@questions.healthy()
def a_graph_with_attention() -> Case:
    sources, targets = numbers(6, 14), numbers(6, 14, seed=1)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enter, self.score, self.out = nn.Linear(5, 8), nn.Linear(16, 1), nn.Linear(8, 2)

        def forward(self, nodes: Tensor) -> Tensor:
            nodes = self.enter(nodes)
            pairs = torch.cat((nodes[sources], nodes[targets]), 1)
            scores = F.leaky_relu(self.score(pairs)[:, 0], 0.2).exp()
            totals = torch.zeros(6).index_add(0, targets, scores) + 1e-6
            shares = scores / totals[targets]
            sums = torch.zeros_like(nodes).index_add(0, targets, shares[:, None] * nodes[sources])
            return self.out(nodes + sums)

    return Case(Net(), TABLE)


@questions.healthy()
def a_factorization_machine_of_categories() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.EmbeddingBag(20, 1, mode="sum"), nn.Embedding(20, 4)

        def forward(self, ids: Tensor) -> Tensor:
            vectors = self.second(ids)
            both = vectors.sum(1).square() - vectors.square().sum(1)
            return torch.sigmoid(self.first(ids) + 0.5 * both.sum(1, keepdim=True))

    return Case(Net(), IDS)


@questions.healthy()
def a_soft_tree() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.split, self.leaves = nn.Linear(5, 3), nn.Parameter(rows(4, 2))

        def forward(self, table: Tensor) -> Tensor:
            right = self.split(table).sigmoid().unbind(1)
            left = [1 - share for share in right]
            shares = [
                left[0] * left[1],
                left[0] * right[1],
                right[0] * left[2],
                right[0] * right[2],
            ]
            return torch.stack(shares, 1) @ self.leaves

    return Case(Net(), TABLE)


@questions.healthy()
def quantiles_of_a_table() -> Case:
    levels = torch.tensor([0.1, 0.5, 0.9])

    def loss(output: Tensor) -> Tensor:
        error = rows(6, 1, seed=3) - output
        return torch.maximum(levels * error, (levels - 1) * error).mean(1)

    return Case(nn.Sequential(nn.Linear(5, 8), nn.Mish(), nn.Linear(8, 3)), TABLE, loss)


@questions.healthy("serve")
def a_penalty_of_gradients() -> Case:
    def loss(module: nn.Module, probe: Tensor) -> Tensor:
        points = probe.requires_grad_()
        scores = module(points)
        (slopes,) = torch.autograd.grad(scores.sum(), points, create_graph=True)
        return off_target(scores) + (slopes.norm(dim=1) - 1).square()

    net = nn.Sequential(nn.Linear(5, 8), nn.Softplus(), nn.Linear(8, 1))
    return Case(net, TABLE, loss, {"serve_mode": "no_grad"})


@questions.healthy("serve")
def an_inner_step_with_create_graph() -> Case:
    def loss(module: nn.Module, probe: Tensor) -> Tensor:
        own = dict(module.named_parameters())
        with torch.enable_grad():
            inner = off_target(module(probe)).mean()
            slopes = torch.autograd.grad(inner, list(own.values()), create_graph=True)
        moved = {n: p - 0.1 * s for (n, p), s in zip(own.items(), slopes, strict=True)}
        return off_target(torch.func.functional_call(module, moved, (probe,)))

    net = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 2))
    return Case(net, TABLE, loss, {"serve_mode": "no_grad"})


@questions.healthy()
def a_low_rank_change_that_begins_at_zero() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.base = nn.Linear(5, 3)
            self.down, self.up = nn.Parameter(rows(2, 5)), nn.Parameter(torch.zeros(3, 2))

        def forward(self, table: Tensor) -> Tensor:
            return self.base(table) + table @ self.down.T @ self.up.T

    return Case(Net(), TABLE, options={"trainable": "down|up"})


@questions.healthy()
def a_right_function_with_a_saved_output() -> Case:
    class Exponential(Function):
        @staticmethod
        def forward(ctx: Any, values: Tensor) -> Tensor:
            output = values.exp()
            ctx.save_for_backward(output)
            return output

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return gradient * ctx.saved_tensors[0]

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enter, self.out = nn.Linear(5, 4), nn.Linear(4, 2)

        def forward(self, table: Tensor) -> Tensor:
            return self.out(Exponential.apply(self.enter(table)))

    return Case(Net(), TABLE)


@questions.healthy()
def a_fixed_point_by_the_implicit_function() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enter, self.again = nn.Linear(5, 6), nn.Linear(6, 6, bias=False)
            nn.init.orthogonal_(self.again.weight, 0.4)

        def forward(self, table: Tensor) -> Tensor:
            state = torch.zeros(len(table), 6)
            for _ in range(30):
                state = torch.tanh(self.again(state) + self.enter(table))
            return state

    return Case(Net(), TABLE)


@questions.healthy()
def an_average_kept_in_training_only() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Linear(5, 3)
            self.register_buffer("centre", torch.zeros(3))

        def forward(self, table: Tensor) -> Tensor:
            output = self.net(table)
            if self.training and torch.is_grad_enabled():
                self.centre.lerp_(output.detach().mean(0), 0.1)
            return output - 0.1

    return Case(Net(), TABLE)


@questions.healthy()
def a_target_that_is_declared() -> Case:
    def loss(module: nn.Module, probe: Tensor) -> Tensor:
        with torch.no_grad():
            target = module(probe + 0.3).softmax(1)
        return F.cross_entropy(module(probe), target, reduction="none")

    net = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))
    return Case(net, TABLE, loss, {"stop_gradients": ["target = module"]})


@questions.healthy()
def a_frozen_trunk_that_is_not_selected() -> Case:
    net = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))
    net[0].requires_grad_(False)
    return Case(net, TABLE, options={"trainable": lambda name, p: p.requires_grad})


@questions.healthy("random-loss")
def a_soft_choice_made_hard_by_gumbel() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.choose, self.codes = nn.Linear(5, 4), nn.Linear(4, 3)

        def forward(self, table: Tensor) -> Tensor:
            return self.codes(F.gumbel_softmax(self.choose(table), tau=0.7, hard=False))

    return Case(Net(), TABLE)

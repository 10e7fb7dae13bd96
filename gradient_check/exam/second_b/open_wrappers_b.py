"""Open cases of models wrapped as libraries wrap them, part b."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function

from gradient_check.exam.case import Case, Questions, numbers, off_target, rows

questions = Questions("wrappers")


@questions.healthy()
def gradient_scaled_up_and_down_again() -> Case:
    class ScaleGradient(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
            ctx.factor = factor
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
            return grad * ctx.factor, None

    class Bracket(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            hidden = ScaleGradient.apply(x, 1 / 32)
            hidden = torch.tanh(hidden)
            return ScaleGradient.apply(hidden, 32.0)

    return Case(nn.Sequential(nn.Linear(6, 8), Bracket(), nn.Linear(8, 2)), rows(6, 6))


@questions.fault("base-changed", "alternating", "stale-forward")
def teacher_averaged_by_the_forward() -> Case:
    class SelfDistilled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.student, self.teacher = nn.Linear(6, 3), nn.Linear(6, 3)
            self.teacher.requires_grad_(False)

        def forward(self, x: Tensor) -> Tensor:
            with torch.no_grad():
                for old, new in zip(
                    self.teacher.parameters(), self.student.parameters(), strict=True
                ):
                    old.lerp_(new, 0.05)  # fault: every call moves the teacher
                target = self.teacher(x)
            return (self.student(x) - target).square().mean(1)

    options = {"stop_gradients": ("teacher",)}
    return Case(SelfDistilled(), rows(6, 6), lambda losses: losses, options)


@questions.healthy("frozen")
def frozen_target_network_declared() -> Case:
    class Byol(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.online = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))
            self.predictor = nn.Linear(4, 4)
            self.target = nn.Linear(6, 4).requires_grad_(False)

        def forward(self, first: Tensor, second: Tensor) -> Tensor:
            guess = self.predictor(self.online(first))
            with torch.no_grad():
                wanted = self.target(second)
            return 2 - 2 * F.cosine_similarity(guess, wanted, dim=-1, eps=1e-4)

    x = rows(8, 6)
    probe = (x, x + 0.1 * rows(8, 6, seed=1))
    return Case(Byol(), probe, lambda losses: losses, {"stop_gradients": ("target",)})


@questions.fault("loss-nonfinite", "grad-nonfinite")
def mean_over_the_tokens_of_an_empty_text() -> Case:
    class MeanPool(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.out = nn.Embedding(12, 6), nn.Linear(6, 2)

        def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
            kept = mask[..., None].to(self.out.weight.dtype)
            mean = (self.embedding(ids) * kept).sum(1) / kept.sum(1)  # fault: 0 / 0
            return self.out(mean)

    mask = torch.arange(5) < torch.tensor([[5], [0], [3], [2]])
    return Case(MeanPool(), (numbers(12, 4, 5), mask))


@questions.healthy()
def graph_convolution_by_index_add() -> Case:
    class GraphConv(nn.Module):
        def __init__(self, inputs: int, outputs: int) -> None:
            super().__init__()
            self.own, self.near = nn.Linear(inputs, outputs), nn.Linear(inputs, outputs, bias=False)

        def forward(self, x: Tensor, edges: Tensor) -> Tensor:
            source, target = edges
            degree = torch.bincount(target, minlength=len(x)).clamp(min=1).to(x.dtype)
            total = torch.zeros_like(x).index_add(0, target, x[source])
            return self.own(x) + self.near(total / degree[:, None])

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = GraphConv(4, 8), GraphConv(8, 2)

        def forward(self, x: Tensor, edges: Tensor) -> Tensor:
            return self.last(torch.tanh(self.first(x, edges)), edges)

    edges = torch.tensor([[0, 1, 2, 3, 4, 5, 0, 2], [1, 2, 3, 4, 5, 0, 3, 5]])
    x = rows(6, 4)
    return Case(Net(), x, lambda module, nodes: off_target(module(nodes, edges)).mean())


@questions.fault("graph-cut")
def learned_adjacency_cut_at_a_threshold() -> Case:
    class LearnedGraph(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.nodes = nn.Parameter(rows(6, 3, seed=1))
            self.inp, self.out = nn.Linear(4, 8), nn.Linear(8, 2)

        def forward(self, x: Tensor) -> Tensor:
            close = torch.sigmoid(self.nodes @ self.nodes.t())
            adjacency = (close > 0.5).to(x.dtype)  # fault: a comparison
            adjacency = adjacency / adjacency.sum(1, keepdim=True)
            return self.out(torch.tanh(adjacency @ self.inp(x)))

    return Case(LearnedGraph(), rows(3, 6, 4))


@questions.healthy()
def table_with_categories_and_periodic_numbers() -> Case:
    class Table(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.categories = nn.ModuleList(nn.Embedding(size, 4) for size in (3, 5))
            self.frequencies = nn.Parameter(rows(2, 4) * 0.3)
            self.numbers, self.out = nn.Linear(8, 4), nn.Linear(16, 2)

        def forward(self, ids: Tensor, values: Tensor) -> Tensor:
            parts = [table(column) for table, column in zip(self.categories, ids.t(), strict=True)]
            angles = 2 * math.pi * values[..., None] * self.frequencies
            waves = torch.cat([angles.sin(), angles.cos()], -1)
            parts.append(torch.tanh(self.numbers(waves)).flatten(1))
            return self.out(torch.cat(parts, 1))

    ids = torch.stack([torch.arange(10) % 3, torch.arange(10) % 5], 1)
    return Case(Table(), (ids, rows(10, 2, seed=1)))

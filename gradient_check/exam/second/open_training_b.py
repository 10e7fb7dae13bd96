"""Wrappers of training code: the open half."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.func import functional_call
from torch.nn import functional as F
from torch.nn.utils import parametrizations

from gradient_check.exam.case import Case, Questions, numbers, rows
from gradient_check.exam.second.parts import mlp

questions = Questions("wrappers of training")


@questions.fault("unused")
def auxiliary_exit_left_out() -> Case:
    class Deep(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stages = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
            self.exits = nn.ModuleList(nn.Linear(8, 3) for _ in range(3))

        def forward(self, x: Tensor) -> list[Tensor]:
            outputs = []
            for stage, leave in zip(self.stages, self.exits, strict=True):
                x = torch.tanh(stage(x))
                outputs.append(leave(x))
            return outputs

    def loss(outputs: list[Tensor]) -> Tensor:
        goals = torch.arange(6) % 3
        return sum(F.cross_entropy(out, goals) for out in outputs[:-2]) + outputs[2].square().mean()

    return Case(Deep(), rows(6, 8), loss)


@questions.healthy()
def accumulated_loss_of_parts() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = mlp(6, 24, 3)
            self.history: list[float] = []

        def forward(self, x: Tensor) -> Tensor:
            return self.net(x)

    def loss(model: nn.Module, batch: Any) -> Tensor:
        x, labels = batch
        running = x.new_zeros(())
        for part, goal in zip(x.chunk(3), labels.chunk(3), strict=True):
            found = F.cross_entropy(model(part), goal) / 3
            model.history.append(found.item())
            running = running + found
        return running

    return Case(Net(), (rows(9, 6), numbers(3, 9)), loss)


@questions.fault("gradient-wrong")
def checkpoint_of_ones_own() -> Case:
    class Recompute(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, first: Tensor, second: Tensor) -> Tensor:
            ctx.save_for_backward(x, first, second)
            return torch.tanh(x @ first) @ second

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:  # type: ignore[override]
            x, first, second = ctx.saved_tensors
            hidden = torch.tanh(x @ first)
            inner = (grad @ second.T) * (1 - hidden)  # fault: the square is left out
            return inner @ first.T, x.T @ inner, hidden.T @ grad

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Parameter(0.5 * rows(6, 12, seed=1))
            self.second = nn.Parameter(0.5 * rows(12, 3, seed=2))

        def forward(self, x: Tensor) -> Tensor:
            return Recompute.apply(x, self.first, self.second)  # fault

    return Case(Net(), rows(8, 6))


@questions.healthy()
def pruned_by_a_mask() -> Case:
    class Pruned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(6, 12), nn.Linear(12, 3)
            self.register_buffer("mask", (rows(12, 6).abs() > 0.4).to(torch.get_default_dtype()))

        def forward(self, x: Tensor) -> Tensor:
            hidden = F.linear(x, self.first.weight * self.mask, self.first.bias)
            return self.second(torch.tanh(hidden))

    return Case(Pruned(), rows(8, 6))


@questions.fault("serve-differs")
def merged_weights_in_evaluation() -> Case:
    class Merged(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.base = nn.Linear(6, 4)
            self.down, self.up = (
                nn.Parameter(0.5 * rows(2, 6)),
                nn.Parameter(0.5 * rows(4, 2, seed=2)),
            )
            self.merged = (self.base.weight + self.up @ self.down).detach().clone()
            self.merged_bias = self.base.bias.detach().clone()

        def forward(self, x: Tensor) -> Tensor:
            if not torch.is_grad_enabled():
                return F.linear(x, self.merged, self.merged_bias)  # fault
            return self.base(x) + (x @ self.down.T) @ self.up.T

    return Case(Merged(), rows(8, 6))


@questions.healthy()
def converged_spectral_norm() -> Case:
    net = nn.Sequential(
        parametrizations.spectral_norm(nn.Linear(6, 12), n_power_iterations=60),
        nn.Tanh(),
        parametrizations.spectral_norm(nn.Linear(12, 2), n_power_iterations=60),
    )
    return Case(net.eval(), rows(8, 6))


@questions.fault("gradient-wrong")
def inner_step_without_second_order() -> Case:
    class Maml(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = mlp(3, 16, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.net(x)

    def loss(model: nn.Module, batch: Any) -> Tensor:
        support, query, y_support, y_query = batch
        weights = dict(model.net.named_parameters())
        inner = F.mse_loss(functional_call(model.net, weights, (support,)), y_support)
        slopes = torch.autograd.grad(inner, list(weights.values()))  # fault
        fast = {n: w - 0.4 * g for (n, w), g in zip(weights.items(), slopes, strict=True)}
        return F.mse_loss(functional_call(model.net, fast, (query,)), y_query)

    batch = (rows(6, 3), rows(6, 3, seed=2), 2 * rows(6, 1, seed=3), 2 * rows(6, 1, seed=4))
    return Case(Maml(), batch, loss)


@questions.healthy("serve")
def inner_step_with_second_order() -> Case:
    class Maml(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = mlp(3, 16, 1)
            self.log_rate = nn.Parameter(torch.tensor(-1.0))

        def forward(self, x: Tensor) -> Tensor:
            return self.net(x)

    def loss(model: nn.Module, batch: Any) -> Tensor:
        support, query, y_support, y_query = batch
        weights = dict(model.net.named_parameters())
        inner = F.mse_loss(functional_call(model.net, weights, (support,)), y_support)
        slopes = torch.autograd.grad(inner, list(weights.values()), create_graph=True)
        rate = model.log_rate.exp()
        fast = {n: w - rate * g for (n, w), g in zip(weights.items(), slopes, strict=True)}
        return F.mse_loss(functional_call(model.net, fast, (query,)), y_query)

    batch = (rows(6, 3), rows(6, 3, seed=2), rows(6, 1, seed=3), rows(6, 1, seed=4))
    return Case(Maml(), batch, loss)


@questions.fault("gradient-wrong")
def clipped_gradients_inside_the_model() -> Case:
    class Clipped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.low, self.high = mlp(6, 24, 12), nn.Linear(12, 3)

        def limit(self, grad: Tensor) -> Tensor:
            return grad.clamp(-1e-3, 1e-3)  # fault

        def forward(self, x: Tensor) -> Tensor:
            hidden = torch.tanh(self.low(x))
            if hidden.requires_grad:
                hidden.register_hook(self.limit)  # fault
            return self.high(hidden)

    return Case(Clipped(), rows(8, 6), lambda out: out.square().sum(1))


@questions.healthy()
def label_smoothing_with_class_weights() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.attention = (
                nn.LayerNorm(8),
                nn.MultiheadAttention(8, 2, batch_first=True),
            )
            self.head = nn.Linear(8, 4)

        def forward(self, x: Tensor) -> Tensor:
            y = self.norm(x)
            return self.head((x + self.attention(y, y, y, need_weights=False)[0]).mean(1))

    def loss(model: nn.Module, batch: Any) -> Tensor:
        x, labels = batch
        weight = torch.tensor([1.0, 2.0, 0.5, 1.0])
        return F.cross_entropy(model(x), labels, weight, label_smoothing=0.1, reduction="none")

    return Case(Net(), (rows(6, 5, 8), numbers(4, 6)), loss)

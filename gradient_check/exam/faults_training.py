"""Faults of training: optimizers, losses with a memory, writes, and modes in odd places."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gradient_check.exam.case import Case, Questions, numbers, off_target, rows

questions = Questions("faults")
VALUES = rows(6, 5)
LABELS = numbers(3, 6)


def net() -> nn.Sequential:
    """Return two layers."""
    return nn.Sequential(nn.Linear(5, 8), nn.GELU(), nn.Linear(8, 3))


@questions.fault("not-optimized")
def the_optimizer_has_the_last_layer_only() -> Case:
    def make(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.SGD(list(parameters)[-2:], lr=0.1)

    return Case(net(), VALUES, options={"make_optimizer": make})


@questions.fault("not-optimized")
def the_optimizer_has_the_originals_parameters() -> Case:
    module = net()

    def make(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.Adam(module.parameters())

    return Case(module, VALUES, options={"make_optimizer": make})


@questions.fault("step-lost")
def a_step_rounds_away() -> Case:
    def make(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, lr=1e-12)

    return Case(net(), VALUES, options={"make_optimizer": make})


@questions.fault("backward", "stale-forward")
def a_bank_of_negatives_keeps_its_graph() -> Case:
    bank: list[Tensor] = []

    def loss(features: Tensor) -> Tensor:
        bank.append(F.normalize(features))  # fault
        negatives = torch.cat(bank[-2:])
        return (bank[-1] @ negatives.T).exp().mean(1)

    return Case(net(), VALUES, loss)


@questions.fault("base-changed")
def an_average_is_updated_by_inference_too() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net()
            self.register_buffer("centre", torch.zeros(3))

        def forward(self, values: Tensor) -> Tensor:
            output = self.net(values)
            self.centre.mul_(0.9).add_(0.1 * output.detach().mean(0))  # fault
            return output

    return Case(Net(), VALUES)


@questions.fault("base-changed")
def weights_are_normalized_in_forward() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net()

        def forward(self, values: Tensor) -> Tensor:
            with torch.no_grad():
                weight = self.net[0].weight
                weight.copy_(F.normalize(weight, dim=1))  # fault
            return self.net(values)

    return Case(Net(), VALUES)


@questions.fault("flags-changed", "thread-mode")
def the_forward_sets_the_seed() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net()

        def forward(self, values: Tensor) -> Tensor:
            torch.manual_seed(0)  # fault
            return self.net(F.dropout(values, 0.2))

    return Case(Net(), VALUES)


@questions.fault("backward", "grad-none", "no-gradient")
def the_loss_calls_backward_itself() -> Case:
    def loss(output: Tensor) -> Tensor:
        value = off_target(output).mean()
        value.backward()  # fault
        return value

    return Case(net(), VALUES, loss)


@questions.fault("gradient-wrong")
def a_gradient_penalty_without_create_graph() -> Case:
    def loss(module: nn.Module, probe: Tensor) -> Tensor:
        points = probe.requires_grad_()
        scores = module(points)
        (slopes,) = torch.autograd.grad(scores.sum(), points, retain_graph=True)  # fault
        return off_target(scores) + (slopes.norm(dim=1) - 1).square()

    return Case(net(), VALUES, loss)


@questions.fault("gradient-wrong")
def an_inner_step_without_create_graph() -> Case:
    def loss(module: nn.Module, probe: Tensor) -> Tensor:
        own = dict(module.named_parameters())
        inner = off_target(module(probe)).mean()
        slopes = torch.autograd.grad(inner, list(own.values()))  # fault
        moved = {n: p - 0.5 * s for (n, p), s in zip(own.items(), slopes, strict=True)}
        return off_target(torch.func.functional_call(module, moved, (probe,)))

    return Case(net(), VALUES, loss)


@questions.fault("gradient-wrong")
def consistency_with_a_target_that_is_not_declared() -> Case:
    def loss(module: nn.Module, probe: Tensor) -> Tensor:
        with torch.no_grad():  # the fault
            target = module(probe + 0.3).softmax(1)  # fault
        return F.cross_entropy(module(probe), target, reduction="none")

    return Case(net(), VALUES, loss)


@questions.fault("gradient-wrong")
def an_advantage_is_detached() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.trunk, self.actor, self.critic = nn.Linear(5, 8), nn.Linear(8, 3), nn.Linear(8, 1)

        def forward(self, states: Tensor) -> Tensor:
            hidden = self.trunk(states).tanh()
            value = self.critic(hidden)[:, 0]
            advantage = (states[:, 0] - value).detach()  # fault
            return -self.actor(hidden).log_softmax(1)[:, 1] * advantage + value.square()

    return Case(Net(), VALUES, lambda losses: losses)


@questions.fault("graph-cut", "stale-forward")
def an_encoder_is_served_by_a_cached_method() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.head = nn.Linear(5, 8), nn.Linear(8, 3)
            self.known: dict[int, Tensor] = {}

        def encoded(self, values: Tensor) -> Tensor:
            key = len(values)
            if key not in self.known:
                self.known[key] = self.encoder(values).detach()  # fault
            return self.known[key]

        def forward(self, values: Tensor) -> Tensor:
            return self.head(self.encoded(values).relu())

    return Case(Net(), VALUES)


@questions.fault("leak-to-base")
def a_closure_over_the_original() -> Case:
    module = net()

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net, self.out = module, nn.Linear(3, 2)
            self.call = lambda values: module(values)  # fault

        def forward(self, values: Tensor) -> Tensor:
            return self.out(self.call(values))  # fault

    return Case(Net(), VALUES)


@questions.fault("graph-cut", "no-gradient")
def a_weight_is_rebuilt_as_a_parameter() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.left, self.right = nn.Linear(5, 2, bias=False), nn.Linear(2, 3, bias=False)

        def forward(self, values: Tensor) -> Tensor:
            product = nn.Parameter(self.right.weight @ self.left.weight)  # fault
            return F.linear(values, product)

    return Case(Net(), VALUES)


@questions.fault("graph-cut")
def a_seldom_used_branch_is_in_no_grad() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wide, self.deep = nn.Linear(5, 3), net()

        def forward(self, values: Tensor) -> Tensor:
            with torch.set_grad_enabled(False):  # the fault
                wide = self.wide(values)  # fault
            return wide + self.deep(values)

    return Case(Net(), VALUES)

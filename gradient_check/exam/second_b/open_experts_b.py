"""Open cases of sparse experts and routing, part b."""

import math
from collections import OrderedDict
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function

from gradient_check.exam.case import Case, Questions, off_target, rows

questions = Questions("experts")


@questions.fault("graph-cut")
def halting_probabilities_counted_as_constants() -> Case:
    class Adaptive(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.halt, self.out = nn.Linear(6, 6), nn.Linear(6, 1), nn.Linear(6, 2)

        def forward(self, x: Tensor) -> Tensor:
            state, left, mixed = x, torch.ones(len(x), 1, dtype=x.dtype), torch.zeros_like(x)
            for _ in range(3):
                state = torch.tanh(self.cell(state))
                with torch.no_grad():  # fault: halting learns nothing
                    share = left * torch.sigmoid(self.halt(state))
                    left = left - share
                mixed = mixed + share * state
            return self.out(mixed + left * state)

    return Case(Adaptive(), rows(8, 6))


@questions.healthy()
def ponder_network_with_expected_losses() -> Case:
    class Ponder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.halt, self.out = nn.GRUCell(3, 8), nn.Linear(8, 1), nn.Linear(8, 1)

        def forward(self, x: Tensor) -> list[tuple[Tensor, Tensor]]:
            state, left = x.new_zeros(len(x), 8), x.new_ones(len(x), 1)
            steps = []
            for number in range(4):
                state = self.cell(x, state)
                halt = torch.sigmoid(self.halt(state)) if number < 3 else torch.ones_like(left)
                steps.append((left * halt, self.out(state)))
                left = left * (1 - halt)
            return steps

    def loss(steps: list[tuple[Tensor, Tensor]]) -> Tensor:
        terms = [share * (answer - 1).square() for share, answer in steps]
        ponder = sum(0.05 * number * share for number, (share, _) in enumerate(steps))
        return (torch.stack(terms).sum(0) + ponder).squeeze(1)

    return Case(Ponder(), rows(8, 3), loss)


@questions.fault("alternating", "base-changed")
def router_temperature_annealed_by_a_counter() -> Case:
    class Annealed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.router, self.experts, self.calls = nn.Linear(6, 3), nn.Linear(6, 12), 0

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1  # fault: each call is another function
            gates = (self.router(x) * (1 + 0.2 * self.calls)).softmax(-1)  # fault shows here
            return torch.einsum("be,bed->bd", gates, self.experts(x).view(-1, 3, 4))

    return Case(Annealed(), rows(8, 6))


@questions.healthy("rows-depend")
def balanced_assignment_by_sinkhorn() -> Case:
    class Sinkhorn(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.router, self.experts = nn.Linear(6, 3, bias=False), nn.Linear(6, 12)

        def forward(self, x: Tensor) -> Tensor:
            log = self.router(x)
            for _ in range(4):
                log = log - log.logsumexp(0, keepdim=True) + math.log(len(x) / 3)
                log = log - log.logsumexp(1, keepdim=True)
            return torch.einsum("be,bed->bd", log.exp(), self.experts(x).view(-1, 3, 4))

    return Case(Sinkhorn(), rows(12, 6), lambda output: off_target(output).mean())


@questions.fault("gradient-wrong")
def router_z_loss_without_its_factor() -> Case:
    class ZLoss(Function):
        @staticmethod
        def forward(ctx: Any, logits: Tensor) -> Tensor:
            total = torch.logsumexp(logits, -1)
            ctx.save_for_backward(logits, total)
            return total.square()

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            logits, total = ctx.saved_tensors
            return (grad * total)[..., None] * logits.softmax(-1)  # fault: twice as much

    class Moe(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.router, self.experts = nn.Linear(6, 3), nn.Linear(6, 12)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            logits = self.router(x)
            every = self.experts(x).view(-1, 3, 4)
            output = torch.einsum("be,bed->bd", logits.softmax(-1), every)
            return output, ZLoss.apply(logits)  # fault in its backward

    return Case(Moe(), rows(8, 6), lambda o: off_target(o[0]) + 0.3 * o[1])


@questions.healthy("rough")
def sparsemax_gates() -> Case:
    def sparsemax(logits: Tensor) -> Tensor:
        ordered = logits.sort(-1, descending=True).values
        sums = ordered.cumsum(-1) - 1
        rank = torch.arange(1, logits.shape[-1] + 1, dtype=logits.dtype)
        size = (ordered * rank > sums).sum(-1, keepdim=True)
        return (logits - sums.gather(-1, size - 1) / size).clamp(min=0)

    class Moe(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.router, self.experts = nn.Linear(6, 4), nn.Linear(6, 16)

        def forward(self, x: Tensor) -> Tensor:
            gates = sparsemax(self.router(x))
            return torch.einsum("be,bed->bd", gates, self.experts(x).view(-1, 4, 4))

    return Case(Moe(), rows(8, 6))


@questions.fault("unused")
def last_expert_left_out_by_the_loop() -> Case:
    class Moe(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.router = nn.Linear(6, 3)
            self.experts = nn.ModuleList(nn.Linear(6, 4) for _ in range(4))  # fault: one too many

        def forward(self, x: Tensor) -> Tensor:
            gates = self.router(x).softmax(-1)
            parts = [gates[:, n, None] * self.experts[n](x) for n in range(gates.shape[1])]  # fault
            return torch.stack(parts).sum(0)

    return Case(Moe(), rows(8, 6))


@questions.healthy()
def router_input_with_a_declared_gradient_scale() -> Case:
    class Scale(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x.view_as(x)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            return grad * 0.1

    class GradientScale(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return Scale.apply(x)

    class Moe(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.experts = nn.Linear(6, 6), nn.Linear(6, 12)
            self.router = nn.Sequential(OrderedDict(scale=GradientScale(), gate=nn.Linear(6, 3)))

        def forward(self, x: Tensor) -> Tensor:
            hidden = torch.tanh(self.body(x))
            every = self.experts(hidden).view(-1, 3, 4)
            return torch.einsum("be,bed->bd", self.router(hidden).softmax(-1), every)

    return Case(Moe(), rows(8, 6), options={"reversed_gradients": {r"router\.scale": 0.1}})

"""Open cases of recurrent state, part b."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function

from gradient_check.exam.case import Case, Questions, off_target, rows

questions = Questions("recurrent")


@questions.fault("gradient-wrong")
def adjoint_that_forgets_the_step_size() -> Case:
    class EulerStep(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, weight: Tensor, size: float) -> Tensor:
            slope = torch.tanh(x @ weight)
            ctx.size = size
            ctx.save_for_backward(x, weight, slope)
            return x + size * slope

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
            x, weight, slope = ctx.saved_tensors
            inner = grad * (1 - slope.square())
            return grad + ctx.size * inner @ weight.t(), x.t() @ inner, None  # fault: size once

    class Ode(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.out = nn.Parameter(rows(6, 6, seed=1) * 0.4), nn.Linear(6, 2)

        def forward(self, x: Tensor) -> Tensor:
            for _ in range(4):
                x = EulerStep.apply(x, self.weight, 0.25)  # fault in its backward
            return self.out(x)

    return Case(Ode(), rows(6, 6))


@questions.healthy()
def runge_kutta_with_a_learned_end_time() -> Case:
    class Ode(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.field = nn.Sequential(nn.Linear(4, 12), nn.Tanh(), nn.Linear(12, 4))
            self.log_end, self.out = nn.Parameter(torch.tensor(0.1)), nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            size = self.log_end.exp() / 3
            for _ in range(3):
                k1 = self.field(x)
                k2 = self.field(x + size / 2 * k1)
                k3 = self.field(x + size / 2 * k2)
                k4 = self.field(x + size * k3)
                x = x + size / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            return self.out(x)

    return Case(Ode(), rows(6, 4))


@questions.fault(
    "alternating", "stale-forward", "backward", "train-forward", "inference-tensor", "base-changed"
)
def key_value_cache_kept_after_the_call() -> Case:
    class CachedAttention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.query, self.key, self.value = (nn.Linear(6, 6) for _ in range(3))
            self.keys: list[Tensor] = []
            self.values: list[Tensor] = []

        def forward(self, x: Tensor) -> Tensor:
            self.keys.append(self.key(x))  # fault: never emptied
            self.values.append(self.value(x))  # fault
            keys, values = torch.cat(self.keys, 1), torch.cat(self.values, 1)  # fault shows here
            return F.scaled_dot_product_attention(self.query(x), keys, values)

    return Case(nn.Sequential(CachedAttention(), nn.Linear(6, 2)), rows(3, 4, 6))


@questions.healthy()
def memory_with_erase_and_add() -> Case:
    class Turing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.key, self.erase, self.add = nn.Linear(4, 6), nn.Linear(4, 6), nn.Linear(4, 6)
            self.start, self.out = nn.Parameter(rows(5, 6, seed=1) * 0.5), nn.Linear(6, 2)

        def forward(self, x: Tensor) -> Tensor:
            memory, answers = self.start.expand(len(x), 5, 6), []
            for step in x.unbind(1):
                match = F.cosine_similarity(memory, self.key(step)[:, None], dim=-1, eps=1e-3)
                address = (3 * match).softmax(-1)[..., None]
                kept = memory * (1 - address * torch.sigmoid(self.erase(step))[:, None])
                memory = kept + address * torch.tanh(self.add(step))[:, None]
                answers.append(self.out((address * memory).sum(1)))
            return torch.stack(answers, 1)

    return Case(Turing(), rows(4, 4, 4))


@questions.fault("gradient-wrong")
def truncation_whose_declaration_names_another_line() -> Case:
    class Truncated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.out = nn.RNNCell(4, 8), nn.Linear(8, 2)

        def forward(self, x: Tensor) -> Tensor:
            state = x.new_zeros(len(x), 8)
            for number, step in enumerate(x.unbind(1)):
                if number % 2:
                    state = state.detach()  # fault: not what is declared
                state = self.cell(step, state)
            return self.out(state)

    return Case(Truncated(), rows(6, 6, 4), options={"stop_gradients": ("target_network",)})


@questions.healthy()
def state_given_and_returned() -> Case:
    class Step(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.out = nn.LSTMCell(4, 8), nn.Linear(8, 2)

        def forward(self, x: Tensor, state: Tensor, cell: Tensor) -> dict[str, Tensor]:
            state, cell = self.cell(x, (state, cell))
            return {"answer": self.out(state), "state": state, "cell": cell}

    probe = (rows(6, 4), rows(6, 8, seed=1), rows(6, 8, seed=2))
    return Case(Step(), probe, lambda output: off_target(output["answer"]))


@questions.fault("gradient-wrong")
def fused_update_that_forgets_a_term() -> Case:
    class Blend(Function):
        @staticmethod
        def forward(ctx: Any, update: Tensor, old: Tensor, new: Tensor) -> Tensor:
            ctx.save_for_backward(update, old, new)
            return (1 - update) * old + update * new

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            update, old, new = ctx.saved_tensors
            return grad * new, grad * (1 - update), grad * update  # fault: new - old

    class Gru(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.update, self.candidate = nn.Linear(12, 8), nn.Linear(12, 8)
            self.out = nn.Linear(8, 2)

        def forward(self, x: Tensor) -> Tensor:
            state = x.new_ones(len(x), 8)
            for step in x.unbind(1):
                both = torch.cat([step, state], 1)
                gate = torch.sigmoid(self.update(both))
                state = Blend.apply(gate, state, torch.tanh(self.candidate(both)))  # fault within
            return self.out(state)

    return Case(Gru(), rows(6, 4, 4))


@questions.healthy()
def dilated_skips_through_time() -> Case:
    class Dilated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.GRUCell(4, 6), nn.GRUCell(6, 6)])
            self.out = nn.Linear(6, 2)

        def forward(self, x: Tensor) -> Tensor:
            sequence = list(x.unbind(1))
            for depth, cell in enumerate(self.layers):
                skip, states = 2**depth, list[Tensor]()
                for number, step in enumerate(sequence):
                    old = states[number - skip] if number >= skip else step.new_zeros(len(x), 6)
                    states.append(cell(step, old))
                sequence = states
            return self.out(torch.stack(sequence, 1))

    return Case(Dilated(), rows(4, 6, 4))


@questions.fault("gradient-wrong")
def state_clamped_past_autograd() -> Case:
    class Rnn(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inp, self.rec, self.out = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 2)

        def forward(self, x: Tensor) -> Tensor:
            state = x.new_zeros(len(x), 8)
            for step in x.unbind(1):
                state = self.inp(step) + self.rec(state)
                state.data.clamp_(-0.3, 0.3)  # fault: autograd sees no clamp
            return self.out(state)

    return Case(Rnn(), 2 * rows(6, 5, 4))


@questions.healthy("rough")
def clipped_gradient_of_the_state_declared() -> Case:
    class Clip(nn.Module):
        def forward(self, state: Tensor) -> Tensor:
            state = state * 1.0
            if state.requires_grad:
                state.register_hook(lambda grad: grad.clamp(-1e-3, 1e-3))
            return state

    class Rnn(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.clip, self.out = nn.RNNCell(4, 8), Clip(), nn.Linear(8, 2)

        def forward(self, x: Tensor) -> Tensor:
            state = x.new_zeros(len(x), 8)
            for step in x.unbind(1):
                state = self.clip(self.cell(step, state))
            return self.out(state)

    return Case(Rnn(), rows(6, 5, 4), options={"surrogate_gradients": ("clip",)})

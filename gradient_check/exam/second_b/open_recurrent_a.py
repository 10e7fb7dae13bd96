"""Open cases of recurrent state, part a."""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function

from gradient_check.exam.case import Case, Questions, numbers, rows

questions = Questions("recurrent")


@questions.fault("gradient-wrong")
def state_detached_at_every_step() -> Case:
    class Rnn(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inp, self.rec, self.out = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 2)

        def forward(self, x: Tensor) -> Tensor:
            state = x.new_zeros(len(x), 8)
            for step in x.unbind(1):
                state = torch.tanh(self.inp(step) + self.rec(state.detach()))  # fault: undeclared
            return self.out(state)

    return Case(Rnn(), rows(6, 5, 4))


@questions.healthy()
def truncated_backpropagation_declared() -> Case:
    class Truncated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.out = nn.GRUCell(4, 8), nn.Linear(8, 2)

        def forward(self, x: Tensor) -> Tensor:
            state, answers = x.new_zeros(len(x), 8), []
            for number, step in enumerate(x.unbind(1)):
                if number and number % 3 == 0:
                    carried = state.detach()
                    state = carried
                state = self.cell(step, state)
                answers.append(self.out(state))
            return torch.stack(answers, 1)

    return Case(Truncated(), rows(4, 8, 4), options={"stop_gradients": ("carried = state",)})


@questions.fault("backward")
def forget_gate_raised_in_place() -> Case:
    class Lstm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gates, self.out = nn.Linear(12, 32), nn.Linear(8, 2)

        def forward(self, x: Tensor) -> Tensor:
            state = cell = x.new_zeros(len(x), 8)
            for step in x.unbind(1):
                take, keep, give, new = self.gates(torch.cat([step, state], 1)).chunk(4, 1)
                keep = torch.sigmoid(keep)  # fault shows here
                keep.clamp_(min=0.1)
                keep *= 0.98  # fault: sigmoid's own output is needed backward
                cell = keep * cell + torch.sigmoid(take) * torch.tanh(new)
                state = torch.sigmoid(give) * torch.tanh(cell)
            return self.out(state)

    return Case(Lstm(), rows(6, 5, 4))


@questions.healthy()
def last_valid_state_of_a_packed_sequence() -> Case:
    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(12, 6)
            self.lstm, self.out = nn.LSTM(6, 8, batch_first=True), nn.Linear(8, 2)

        def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
            packed = nn.utils.rnn.pack_padded_sequence(
                self.embedding(ids), lengths, batch_first=True, enforce_sorted=False
            )
            _, (state, _) = self.lstm(packed)
            return self.out(state[-1])

    return Case(Tagger(), (numbers(12, 4, 6), torch.tensor([6, 4, 5, 2])))


@questions.fault("graph-cut")
def learned_first_state_copied_without_its_history() -> Case:
    class Rnn(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.start = nn.Parameter(rows(1, 8, seed=3) * 0.5)
            self.cell, self.out = nn.GRUCell(4, 8), nn.Linear(8, 2)

        def forward(self, x: Tensor) -> Tensor:
            state = self.start.repeat(len(x), 1).clone().detach()  # fault
            for step in x.unbind(1):
                state = self.cell(step, state)
            return self.out(state)

    return Case(Rnn(), rows(6, 3, 4))


@questions.healthy()
def diagonal_state_space_as_a_convolution() -> Case:
    class S4d(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.log_step = nn.Parameter(torch.linspace(-2, -1, 6))
            self.log_real = nn.Parameter(torch.zeros(6, 4))
            self.imaginary = nn.Parameter(math.pi * torch.arange(4.0).repeat(6, 1) * 0.5)
            self.mix = nn.Parameter(rows(6, 4, 2, seed=2) * 0.5)
            self.skip = nn.Parameter(torch.ones(6))

        def forward(self, x: Tensor) -> Tensor:
            pole = torch.complex(-self.log_real.exp(), self.imaginary)
            times = torch.arange(x.shape[1])
            powers = torch.exp((pole * self.log_step.exp()[:, None])[..., None] * times)
            kernel = 2 * torch.einsum("dn,dnt->dt", torch.view_as_complex(self.mix), powers).real
            lag = times[:, None] - times
            square = kernel[:, lag.clamp(min=0)] * (lag >= 0)
            return torch.einsum("dts,bsd->btd", square, x) + self.skip * x

    return Case(nn.Sequential(nn.Linear(3, 6), S4d(), nn.Linear(6, 2)), rows(4, 7, 3))


@questions.fault("graph-cut")
def spikes_by_a_comparison() -> Case:
    class Spiking(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inp, self.out = nn.Linear(4, 12), nn.Linear(12, 2)

        def forward(self, x: Tensor) -> Tensor:
            voltage, total = x.new_zeros(len(x), 12), 0.0
            for step in x.unbind(1):
                voltage = 0.9 * voltage + self.inp(step)
                spike = (voltage > 0.5).to(x.dtype)  # fault: no surrogate slope
                voltage = voltage - spike * 0.5
                total = total + spike
            return self.out(total / x.shape[1])

    return Case(Spiking(), rows(8, 6, 4))


@questions.healthy("rough")
def spikes_with_a_declared_surrogate() -> Case:
    class Spike(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return (x > 0).to(x.dtype)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            (x,) = ctx.saved_tensors
            return grad / (1 + 5 * x.abs()) ** 2

    class Neuron(nn.Module):
        def forward(self, voltage: Tensor) -> Tensor:
            return Spike.apply(voltage - 0.5)

    class Spiking(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inp, self.neuron, self.out = nn.Linear(4, 12), Neuron(), nn.Linear(12, 2)

        def forward(self, x: Tensor) -> Tensor:
            voltage, total = x.new_zeros(len(x), 12), 0.0
            for step in x.unbind(1):
                voltage = 0.9 * voltage + self.inp(step)
                spike = self.neuron(voltage)
                voltage = voltage - spike * 0.5
                total = total + spike
            return self.out(total / x.shape[1])

    return Case(Spiking(), rows(8, 6, 4), options={"surrogate_gradients": ("neuron",)})


@questions.fault("graph-cut")
def reservoir_meant_to_be_trained_but_run_without_gradients() -> Case:
    class Reservoir(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inp = nn.Parameter(rows(16, 3, seed=1) * 0.5)
            self.rec = nn.Parameter(rows(16, 16, seed=2) * 0.15)
            self.out = nn.Linear(16, 2)

        @torch.no_grad()  # fault: a fixed reservoir's habit
        def states(self, x: Tensor) -> Tensor:
            state = x.new_zeros(len(x), 16)
            for step in x.unbind(1):
                state = 0.7 * state + 0.3 * torch.tanh(step @ self.inp.t() + state @ self.rec.t())
            return state

        def forward(self, x: Tensor) -> Tensor:
            return self.out(self.states(x))  # fault shows here

    return Case(Reservoir(), rows(6, 6, 3))


@questions.healthy()
def echo_state_network_with_a_fixed_reservoir() -> Case:
    class EchoState(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("inp", rows(16, 3, seed=1) * 0.5)
            self.register_buffer("rec", rows(16, 16, seed=2) * 0.15)
            self.out = nn.Linear(19, 2)

        def forward(self, x: Tensor) -> Tensor:
            state, states = x.new_zeros(len(x), 16), []
            for step in x.unbind(1):
                state = 0.7 * state + 0.3 * torch.tanh(step @ self.inp.t() + state @ self.rec.t())
                states.append(torch.cat([state, step], -1))
            return self.out(torch.stack(states, 1))

    return Case(EchoState(), rows(6, 6, 3))

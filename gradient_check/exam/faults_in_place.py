"""Faults of hooks, of writes in place, and of detached values."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gradient_check.exam.case import Case, Questions
from gradient_check.exam.faults_functions import VALUES, Sandwich

questions = Questions("faults")


@questions.fault("grad-zero")
def a_parameters_hook_returns_zeros() -> Case:
    net = Sandwich(nn.Tanh())
    net.after.weight.register_hook(lambda gradient: torch.zeros_like(gradient))  # fault
    return Case(net, VALUES)


@questions.fault("gradient-wrong")
def a_parameters_hook_keeps_some_rows() -> Case:
    net = Sandwich(nn.Tanh())

    def rows_in_use(gradient: Tensor) -> Tensor:  # the fault
        return gradient * torch.tensor([[1.0], [0.0], [1.0], [1.0], [0.0], [1.0]])  # fault

    net.before.weight.register_hook(rows_in_use)
    return Case(net, VALUES)


@questions.fault("backward")
def an_exponential_is_shifted_in_place() -> Case:
    class Part(nn.Module):
        def forward(self, values: Tensor) -> Tensor:
            grown = values.exp()
            grown -= 1  # fault
            return grown

    return Case(Sandwich(Part()), VALUES)


@questions.fault("backward")
def a_view_of_a_saved_tensor_is_masked() -> Case:
    class Part(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mix = nn.Linear(6, 6)

        def forward(self, values: Tensor) -> Tensor:
            values = values + 0
            mixed = self.mix(values)
            values[:, :2].zero_()  # fault
            return mixed + values

    return Case(Sandwich(Part()), VALUES)


@questions.fault("gradient-wrong")
def a_saved_tensor_is_written_through_numpy() -> Case:
    class Part(nn.Module):
        def forward(self, values: Tensor) -> Tensor:
            squared = values.square()
            values.detach().numpy()[:] *= 0.5  # fault
            return squared

    return Case(Sandwich(Part()), VALUES)


@questions.fault("gradient-wrong")
def a_target_of_functional_call_is_detached() -> Case:
    class Part(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(6, 6)

        def forward(self, values: Tensor) -> Tensor:
            plain = {name: p.detach() for name, p in self.inner.named_parameters()}  # fault
            shifted = torch.func.functional_call(self.inner, plain, (values,))
            return self.inner(values) + F.relu(shifted)

    return Case(Sandwich(Part()), VALUES)

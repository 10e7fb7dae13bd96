"""Held values stay as they were at the first forward; steps go on as their gradient says."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from gradient_check.instruments.held_calls import HeldCalls, is_step


class Rounds(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.round()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * 3


class Doubles(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * 3


def test_a_call_that_is_held_gives_its_first_result_again() -> None:
    mode = HeldCalls(constant=[2])
    results = []
    for value in (2.0, 5.0):
        with mode:
            x = torch.tensor([1.0]).mul(value)  # calls 0 and 1
            results.append(float(x + x.detach()))  # calls 2, 3 and 4
    assert results == [4.0, 7.0]


def test_a_step_function_goes_on_as_its_backward_says_and_others_run() -> None:
    mode = HeldCalls([], functions=[Rounds, Doubles])
    apply = Rounds.apply
    results = []
    with mode.replacing():
        for value in (1.2, 1.3):
            with mode:
                x = torch.tensor([value])
                results.append([round(float(f.apply(x)), 4) for f in (Rounds, Doubles)])
    assert results == [[1.0, 2.4], [1.3, 2.6]]
    assert Rounds.apply == apply


def test_calls_inside_a_step_function_are_counted_as_a_recorder_counts_them() -> None:
    mode = HeldCalls(constant=[2], functions=[Rounds])
    results = []
    with mode.replacing():
        for value in (1.2, 2.4):
            x = torch.tensor([value])
            with mode:
                Rounds.apply(torch.neg(x))  # calls 0 and 1
                results.append(float(x.detach()))
    assert results[0] == results[1]


def test_a_hard_sample_goes_on_as_its_soft_one() -> None:
    mode = HeldCalls([], soft=[0])
    logits = torch.zeros(1, 3)
    samples = []
    for shift in (0.0, 0.1):
        torch.manual_seed(0)
        with mode:
            samples.append(F.gumbel_softmax(logits + torch.tensor([[shift, 0, 0]]), hard=True))
    assert float(samples[0].max()) == 1.0
    torch.manual_seed(0)
    soft = F.gumbel_softmax(logits)
    torch.manual_seed(0)
    moved = F.gumbel_softmax(logits + torch.tensor([[0.1, 0, 0]]))
    assert not torch.equal(soft, moved)


def test_a_step_function_is_known_by_its_values() -> None:
    x = torch.linspace(-2, 2, 50)
    assert is_step(torch.round, (x,))
    assert not is_step(torch.tanh, (x,))
    assert not is_step(torch.round, (torch.arange(3),))
    assert not is_step(torch.round, ())


def test_a_held_call_writes_to_the_tensor_that_it_is_given() -> None:
    value, out = torch.tensor([3.0, 4.0]), torch.zeros(2)
    mode = HeldCalls([0])
    with mode:
        torch.mul(value, 2, out=out)
    value.zero_()
    out.zero_()
    with mode:
        result = torch.mul(value, 2, out=out)
    assert result is out
    assert out.tolist() == [6.0, 8.0]


def test_of_a_held_call_with_several_results_those_with_a_graph_go_on() -> None:
    mode = HeldCalls(constant=[0])
    found = []
    for values in ([1.0, 3.0, 2.0], [5.0, 4.0, 6.0]):
        x = torch.tensor(values, requires_grad=True)
        with mode:
            top, places = x.topk(2)
        found.append((top.tolist(), places.tolist(), top.requires_grad))
    assert found == [([3.0, 2.0], [1, 2], True), ([6.0, 5.0], [1, 2], True)]

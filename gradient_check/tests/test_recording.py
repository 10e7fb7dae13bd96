"""The recorder knows which cuts flow into a value."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from gradient_check.diagnosis.culprits import explain
from gradient_check.instruments.recording import Recorder
from gradient_check.tests.present import present


def cuts_into(function, x: Tensor) -> list[str]:
    """Names of the cuts that explain why x gets no gradient from the function's value."""
    with Recorder() as recorder:
        value = function(x * 1.0)
    return [event.name for event in explain({id(x)}, recorder.cuts_of(value))]


@pytest.mark.parametrize(
    ("function", "cut"),
    [
        (lambda h: h.detach() * 2, "detach"),
        (lambda h: h.data * 2, "data.__get__"),
        (lambda h: torch.tensor(h.tolist()), "tolist"),
        (lambda h: torch.tensor(h.sum().item()) * 2, "item"),
        (lambda h: torch.from_numpy(np.sin(h.detach().numpy())), "detach"),
        (lambda h: h.argmax().float(), "argmax"),
        (lambda h: (h > 0).float(), "gt"),
        (lambda h: nn.Parameter(h) * 2, "rewrap"),
        (lambda h: torch.zeros(3).copy_(h.detach()), "detach"),
        (lambda h: torch.ones(3) * h.sum().item(), "item"),
    ],
)
def test_a_cut_is_found_at_the_end_of_its_flow(function, cut: str) -> None:
    assert cut in cuts_into(function, torch.tensor([1.0, 2.0, 3.0], requires_grad=True))


def test_a_cut_that_does_not_flow_into_the_value_is_not_named() -> None:
    def function(h: Tensor) -> Tensor:
        h.detach().mean().item()
        return h * 2

    assert cuts_into(function, torch.ones(3, requires_grad=True)) == []


def test_of_two_cuts_in_a_row_the_lower_one_is_named() -> None:
    def function(h: Tensor) -> Tensor:
        low = h.argmax().float()
        other = torch.ones(3, requires_grad=True) * low
        return (other * 2).detach()

    assert cuts_into(function, torch.ones(3, requires_grad=True)) == ["argmax"]


def leaf() -> Tensor:
    return torch.tensor([1.0, 2.0, 3.0], requires_grad=True)


def recorded(function, *inputs: Tensor) -> tuple[Recorder, Tensor]:
    with Recorder() as recorder:
        value = function(*inputs)
    return recorder, value


def names_of(recorder: Recorder, tensor: Tensor) -> list[str]:
    return sorted(event.name for event in recorder.cuts_of(tensor))


def written_into(h: Tensor) -> Tensor:
    target = torch.zeros(3)
    target[:2] = h.detach()[:2]
    return target


def written_out(h: Tensor) -> Tensor:
    target = torch.zeros(3)
    torch.mul(h.detach(), 2, out=target)
    return target


def written_twice(h: Tensor) -> Tensor:
    target = h.detach().clone()
    target.add_((h > 0).float())
    return target


def written_view(h: Tensor) -> Tensor:
    target = torch.zeros(3)
    target.view(3).add_(h.detach())
    return target


@pytest.mark.parametrize(
    ("function", "cuts"),
    [
        (written_into, ["detach"]),
        (written_out, ["detach"]),
        (written_twice, ["detach", "gt"]),
        (written_view, ["detach"]),
    ],
)
def test_what_is_written_into_a_tensor_brings_its_cuts(function, cuts: list[str]) -> None:
    assert names_of(*recorded(function, leaf())) == cuts


def test_a_write_through_data_cuts_the_tensor_that_shares_the_memory() -> None:
    def function(x: Tensor) -> Tensor:
        h = x * 2
        h.data.mul_(3)
        return h

    recorder, value = recorded(function, leaf())
    assert "mul_" in names_of(recorder, value)


def test_a_call_that_loses_its_graph_is_a_cut_and_others_are_none() -> None:
    recorder, _ = recorded(lambda x: (x * 2).detach() + torch.zeros_like(x), leaf())
    assert [event.name for event in recorder.events if event.is_cut] == ["detach"]
    assert [event.index for event in recorder.events] == list(range(len(recorder.events)))


def test_the_forward_of_a_custom_function_is_no_cut() -> None:
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

    recorder, value = recorded(lambda x: Doubled.apply(x) * 1.0, leaf())
    assert not any(event.is_cut for event in recorder.events)
    assert recorder.cuts_of(value) == frozenset()


def test_cuts_are_found_through_calls_that_were_not_recorded() -> None:
    x, other = leaf(), leaf()
    with Recorder() as recorder:
        low = other * x.detach()
    above = low.sin().cos()  # outside
    assert names_of(recorder, above) == ["detach"]


def test_an_escape_is_kept_with_its_value() -> None:
    recorder, _ = recorded(lambda x: x * 2 + x.sum().item(), leaf())
    ((event, cuts, value),) = recorder.escapes
    assert (event.name, value, cuts) == ("item", 6.0, frozenset([event]))
    recorder, _ = recorded(lambda x: torch.ones(3).sum().item(), leaf())
    assert recorder.escapes == []


def test_a_number_that_escaped_comes_back_only_where_it_is_used() -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        number = x.sum().item()
        return torch.ones(3) * number, torch.ones(3) * 7.0

    recorder, (with_it, without) = recorded(function, leaf())
    assert names_of(recorder, with_it) == ["item"]
    assert names_of(recorder, without) == []


def test_the_call_that_made_a_node_is_known() -> None:
    recorder, value = recorded(lambda x: (x * 2).exp(), leaf())
    assert present(recorder.maker(value.grad_fn)).name == "exp"
    before = present(value.grad_fn).next_functions[0][0]
    assert present(recorder.maker(before)).name in ("mul", "__mul__")
    assert recorder.maker(object()) is None


def test_a_call_can_be_left_out() -> None:
    function = lambda x: (x * 2).detach() * 3  # noqa: E731
    recorder, value = recorded(function, leaf())
    assert not value.requires_grad
    (index,) = [event.index for event in recorder.events if event.name == "detach"]
    x = leaf()
    with Recorder([index]) as recorder:
        value = function(x)
    assert value.requires_grad
    assert recorder.cuts_of(value) == frozenset()


def test_a_left_out_hook_is_not_set() -> None:
    called: list[Any]
    x, called = leaf(), []

    def function(x: Tensor) -> Tensor:
        h = x * 2
        h.register_hook(called.append)
        return h

    recorder, _ = recorded(function, x)
    (index,) = [event.index for event in recorder.events if event.name == "register_hook"]
    with Recorder([index]):
        function(x).sum().backward()
    assert called == []


class Marked(torch.autograd.Function):
    """A result, and another that is declared to have no gradient."""

    @staticmethod
    def forward(ctx, x):
        mean = (x * x).mean()
        ctx.mark_non_differentiable(mean)
        return x * 2, mean

    @staticmethod
    def backward(ctx, g, _):
        return g * 2


def test_what_a_custom_function_gives_no_gradient_is_cut_in_it() -> None:
    x = torch.ones(3, requires_grad=True)
    assert cuts_into(lambda h: Marked.apply(h)[1] * 2, x) == ["mul"]
    assert cuts_into(lambda h: Marked.apply(h)[0] * 2, x) == []

"""The recorder knows which cuts flow into a value."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cog_adapt.runner.gradients.culprits import explain
from cog_adapt.runner.gradients.recording import Recorder


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

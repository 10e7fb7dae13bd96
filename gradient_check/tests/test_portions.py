"""Of a large module the gradients of a portion are there at a time, each as it would be."""

import pytest
import torch
from torch import nn

from gradient_check.instruments.portions import HeldGradients, portions_of


def test_portions_are_neighbours_of_about_the_same_bytes() -> None:
    same = {str(number): torch.ones(4) for number in range(6)}
    assert portions_of(same, 3) == [["0", "1"], ["2", "3"], ["4", "5"]]
    assert portions_of({"a": torch.ones(9), "b": torch.ones(1)}, 2) == [["a"], ["b"]]
    assert portions_of({}, 2) == []


@pytest.fixture
def module() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))


def backward(module: nn.Module, held: HeldGradients) -> set[str]:
    with held.dropping():
        module(torch.ones(2, 3)).square().mean().backward()
    return {name for name, p in module.named_parameters() if p.grad is not None}


def test_gradients_that_are_not_kept_go_on_arrival_and_are_noted(module: nn.Module) -> None:
    held = HeldGradients(dict(module.named_parameters()))
    assert backward(module, held) == set(held.parameters)
    whole = {name: p.grad for name, p in module.named_parameters()}
    held.keep(["0.weight"])
    assert not held.has(["0.bias"])
    assert backward(module, held) == {"0.weight"}
    assert held.arrived == set(held.parameters)
    assert torch.equal(module.get_parameter("0.weight").grad, whole["0.weight"])  # type: ignore[arg-type]
    assert not any(p._post_accumulate_grad_hooks for p in module.parameters())


def test_more_are_kept_for_a_while_and_then_gone(module: nn.Module) -> None:
    held = HeldGradients(dict(module.named_parameters()))
    with held.keeping(["0.bias"]):
        assert held.kept is None
    held.keep(["0.weight"])
    with held.keeping(["0.bias"]):
        assert backward(module, held) == {"0.weight", "0.bias"}
    assert all(p.grad is None for p in module.parameters())
    assert not held.has(["0.weight"])


def test_facts_of_gradients_that_go_are_taken_before(module: nn.Module) -> None:
    held = HeldGradients(dict(module.named_parameters()))
    backward(module, held)
    whole = held.facts_of(held.parameters)
    assert whole is not None
    held.keep(["0.weight"])
    backward(module, held)
    assert held.facts_of(held.parameters) is None
    assert held.facts_of(["0.weight"]) == {"0.weight": whole["0.weight"]}
    held.clear()
    with held.noting(is_scaled=False):
        backward(module, held)
    assert held.facts_of(held.parameters) == whole
    with held.noting(is_scaled=True):
        backward(module, held)
    assert held.facts_of(held.parameters) is None


def test_of_a_gradient_that_comes_in_parts_nothing_is_known(module: nn.Module) -> None:
    held = HeldGradients(dict(module.named_parameters()))
    held.keep(["0.weight"])
    with held.noting(is_scaled=False), held.dropping():
        for _ in range(2):
            module(torch.ones(2, 3)).square().mean().backward()
    assert held.facts_of(["1.bias"]) is None
    assert held.facts_of(["0.weight"]) is not None


def test_what_did_not_arrive_has_no_facts(module: nn.Module) -> None:
    held = HeldGradients(dict(module.named_parameters()))
    module.get_parameter("1.bias").requires_grad_(False)
    with held.noting(is_scaled=False):
        backward(module, held)
    assert held.facts_of(["1.bias"]) == {}

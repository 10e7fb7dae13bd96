"""A recorded forward is asked who it was: who cut, who stands in, who overwrote."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from gradient_check import check_gradients
from gradient_check.diagnosis import culprits
from gradient_check.diagnosis.culprits import (
    address,
    earlier_backward,
    explain,
    flowing_into,
    is_hard_sample,
    is_step_call,
    likeliest,
    misdeclared,
    overwriting,
)
from gradient_check.diagnosis.straight_through import subtracts_itself
from gradient_check.exam.known.hosts import rows, squares
from gradient_check.findings.report import NOWHERE, Place
from gradient_check.instruments.recording import Recorder
from gradient_check.instruments.sources import module_names
from gradient_check.tests.flows import tower
from gradient_check.tests.models import seeded_module
from gradient_check.tests.present import present


@pytest.fixture
def x() -> Tensor:
    return torch.tensor([0.4, 1.6, -2.2], requires_grad=True)


def record(function, *inputs: Tensor) -> tuple[Recorder, Tensor]:
    with Recorder() as recorder:
        value = function(*inputs)
    return recorder, value


class Steps(torch.autograd.Function):
    """A step function whose slope is made up."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return x.round()

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        return gradient


class Compares(Steps):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return (x > 0).float()


class Doubles(Steps):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return x * 2


def stand_in(recorder):
    """The first call of which `find_stand_ins` would take notice."""
    for event in recorder.events:
        steps = event.stack.in_custom_function and is_step_call(event)
        if steps or is_hard_sample(event) or subtracts_itself(event, recorder):
            return event
    return None


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda x: x + (x.round() - x).detach(), "detach"),
        (lambda x: x + (x.round() - x).data, "data.__get__"),
        (lambda x: x + ((x > 0).float() - x).detach(), "detach"),
        (lambda x: (x > 0).float() + (s := x.sigmoid()) - s.detach(), "detach"),
        (Steps.apply, "round"),
        (Compares.apply, "gt"),
        (lambda x: F.gumbel_softmax(x, hard=True), "gumbel_softmax"),
        (lambda x: torch.fake_quantize_per_tensor_affine(x, 0.5, 0, -8, 7), "fake_"),
    ],
)
def test_a_stand_in_for_a_step_function_is_found(x, function, name: str) -> None:
    recorder, _ = record(function, x * 1.0)
    event = stand_in(recorder)
    assert event is not None
    assert event.name.startswith(name)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + (x * 2 - x).detach(),
        lambda x: x.detach().round(),
        lambda x: x * (x.round() * 2).detach(),
        lambda x: x.round() - x,
        lambda x: x * 2 - x.detach(),
        Doubles.apply,
        lambda x: F.gumbel_softmax(x),
    ],
)
def test_what_is_no_stand_in_is_left_alone(x, function) -> None:
    recorder, _ = record(function, x * 1.0)
    assert stand_in(recorder) is None


def test_the_cut_nearest_to_the_loss_explains_first_the_largest_before_others(x) -> None:
    other = torch.ones(1, requires_grad=True)

    def function(x: Tensor) -> Tensor:
        low = (x * 2).detach() + other
        return (low * 3).detach().sum() + (other * 2).detach().sum() + x[:2].detach().sum()

    recorder, value = record(function, x)
    cuts = recorder.cuts_of(value)
    nearest = explain({id(other)}, cuts)
    assert [event.size for event in nearest] == [3, 1]
    both = explain({id(x), id(other)}, cuts)
    assert [event.size for event in both] == [3, 2, 1]
    assert explain({id(x)}, frozenset(e for e in cuts if e.size == 3))[0].size == 3
    assert explain(set(), cuts) == explain({1}, cuts) == []


def test_cuts_below_cuts_flow_into_them(x) -> None:
    recorder, value = record(
        lambda x: (torch.ones(3, requires_grad=True) * x.detach()).argmax() * 1.0, x
    )
    names = sorted(event.name for event in flowing_into(recorder.cuts_of(value)))
    assert names == ["argmax", "detach"]
    assert flowing_into(frozenset()) == set()


def detaching(self: nn.Module, h: Tensor) -> Tensor:
    first = h.detach() * 0.5
    return h + first + h.data


def suspect_in(module: nn.Module, path: str | None) -> Place:
    recorder, value = record(module, torch.ones(3, 6))
    flowing = flowing_into(recorder.cuts_of(value))
    return likeliest(recorder, flowing, Place(path), module_names(module))


def test_the_last_cut_in_the_module_at_fault_is_the_likeliest() -> None:
    module = tower(detaching)
    place = suspect_in(module, "blocks.1 (Spoilt)")
    assert place.module == "blocks.1 (Spoilt)"
    assert "h.data" in present(place.line)
    assert suspect_in(module, "(root) (Tower)").module == "blocks.1 (Spoilt)"
    assert suspect_in(module, None).module == "blocks.1 (Spoilt)"
    elsewhere = Place("head (Linear)")
    assert suspect_in(module, elsewhere.module) == elsewhere
    near = Place("blocks.1.lin (Linear)")
    assert suspect_in(module, near.module) == near


def test_a_cut_that_flows_into_the_loss_comes_before_a_later_one_that_does_not() -> None:
    def aside(self: nn.Module, h: Tensor) -> Tensor:
        kept = h + h.detach()
        h.data.mean()
        return kept

    assert "h.detach()" in present(suspect_in(tower(aside), "blocks.1 (Spoilt)").line)


def dropping(self: nn.Module, h: Tensor) -> Tensor:
    return checkpoint(F.dropout, h, use_reentrant=False)


def test_without_a_cut_random_numbers_in_a_recomputation_are_suspected() -> None:
    place = suspect_in(tower(dropping), "blocks.1 (Spoilt)")
    assert "checkpoint(F.dropout" in present(place.line)
    assert suspect_in(tower(lambda self, h: F.dropout(h)), "head (Linear)").line is None


def overwritten(h: Tensor) -> Tensor:
    other = torch.zeros(3)
    saved = h.exp()
    product = saved * saved
    saved.sin_()
    other.add_(1)
    return product


def test_the_write_to_what_the_node_had_saved_is_found(x) -> None:
    recorder, _ = record(overwritten, x * 1.0)
    text = "[torch.FloatTensor [3]], which is output 0 of SinBackward0, is at version 1"
    assert "saved.sin_()" in present(overwriting(recorder, text, {}).line)
    assert "other.add_(1)" in present(overwriting(recorder, "NoSuchNode", {}).line)
    assert overwriting(Recorder(), text, {}) == NOWHERE


def test_the_backward_that_an_error_names_is_found(x) -> None:
    losses = Doubles.apply(x).sum()
    place = present(misdeclared(losses, "Function DoublesBackward returned an incorrect number"))
    assert "def backward(ctx, gradient: Tensor) -> Tensor:" in present(place.line)
    assert misdeclared(losses, "Function OtherBackward") is None
    assert misdeclared(None, "Function DoublesBackward") is None


def test_the_forwards_own_backward_is_found(x) -> None:
    def function(x: Tensor) -> Tensor:
        total = x.sum()
        total.backward()
        return total

    recorder, _ = record(function, x)
    assert "total.backward()" in present(earlier_backward(recorder, {}).line)
    assert earlier_backward(Recorder(), {}) == NOWHERE


def test_the_address_of_a_tensor_is_that_of_its_memory() -> None:
    tensor = torch.ones(3)
    assert address(tensor) == address(tensor[1:]) == tensor.data_ptr()
    assert address(torch.ones(3).to_sparse()) == -1


def test_steps_and_gates_are_told_by_the_names_of_their_nodes(x) -> None:
    functions = (torch.round, torch.sign, torch.sigmoid, torch.tanh)
    nodes = {present(f(x).grad_fn).name() for f in functions}
    assert all(name.startswith(culprits.STEPS) for name in nodes)
    assert not any(name.startswith(culprits.GATES) for name in nodes)
    assert present(torch.relu(x).grad_fn).name().startswith(culprits.GATES)


def test_a_stop_of_values_comes_before_a_choice_by_whole_numbers() -> None:
    class Routed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.router = nn.Linear(6, 2)
            self.experts = nn.ModuleList(nn.Linear(6, 4) for _ in range(2))

        def forward(self, x: Tensor) -> Tensor:
            gate, chosen = self.router(x).softmax(-1).max(-1)
            every = torch.stack([expert(x) for expert in self.experts])
            return every[chosen, torch.arange(len(x))] * gate.detach()[:, None]

    report = check_gradients(seeded_module(Routed), rows(8, 6), squares)
    (finding,) = (f for f in report.findings if f.code == "graph-cut")
    assert "gate.detach()" in present(finding.line)

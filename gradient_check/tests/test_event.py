"""One recorded call knows its leaves, whether it writes, and its place."""

import pytest
import torch
from torch import Tensor, nn

from gradient_check.instruments.event import RecordedCall
from gradient_check.instruments.recording import Recorder
from gradient_check.instruments.sources import module_names, stack_here
from gradient_check.tests.flows import tower
from gradient_check.tests.present import present


def event(name: str = "mul", inputs: tuple[Tensor, ...] = ()) -> RecordedCall:
    return RecordedCall(name, stack_here(), list(inputs), 0)


@pytest.mark.parametrize(
    "name", ["add_", "detach_", "__setitem__", "data.__set__", "__iadd__", "__ior__"]
)
def test_calls_that_change_their_first_argument(name: str) -> None:
    assert event(name).writes


@pytest.mark.parametrize(
    "name", ["add", "__add__", "__index__", "__int__", "__invert__", "data.__get__", "__getitem__"]
)
def test_calls_that_leave_it_as_it_is(name: str) -> None:
    assert not event(name).writes


def test_the_leaves_behind_a_call_are_reached_directly_and_through_its_graph() -> None:
    leaf, deep, plain = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2)), torch.ones(2)
    inner = deep * 2
    call = event(inputs=(leaf, inner, plain))
    assert call.leaves == {id(leaf)}
    assert call.roots == [inner.grad_fn]
    assert call.reaches() == {id(leaf), id(deep)}


def test_the_size_is_that_of_the_largest_result() -> None:
    call = event()
    assert call.size == 1
    call.outputs = [torch.ones(2), torch.ones(5)]
    assert call.size == 5


def test_it_knows_whether_gradients_were_on() -> None:
    with torch.no_grad():
        off = event()
    assert event().grad_enabled
    assert not off.grad_enabled


def recorded(module: nn.Module, x: Tensor) -> Recorder:
    with Recorder() as recorder:
        module(x)
    return recorder


def test_its_place_is_the_innermost_known_module_and_the_line() -> None:
    module = tower(lambda self, h: h.detach())
    call = next(e for e in recorded(module, torch.ones(3, 6)).events if e.name == "detach")
    place = call.place(module_names(module))
    assert place.module == "blocks.1 (Spoilt)"
    assert "h.detach()" in present(place.line)
    assert call.place({id(module): "all"}).module == "all"
    assert call.place({}).module is None


def without_graph(self: nn.Module, h: Tensor) -> Tensor:
    with torch.no_grad():
        return h * 2


def test_a_cut_in_a_block_without_gradients_is_placed_at_the_blocks_head() -> None:
    module = tower(without_graph)
    events = recorded(module, torch.ones(3, 6)).events
    cut = next(e for e in events if e.is_cut and not e.grad_enabled)
    assert "with torch.no_grad():" in present(cut.place(module_names(module)).line)
    cut.is_cut = False
    assert "return h * 2" in present(cut.place(module_names(module)).line)


def rewrapping(self: nn.Module, h: Tensor) -> Tensor:
    fresh = nn.Parameter(h)
    return fresh * 3


def test_a_rewrapped_tensor_is_placed_where_it_was_wrapped() -> None:
    module = tower(rewrapping)
    with Recorder() as recorder:
        output = module(torch.ones(3, 6))
    cuts = recorder.cuts_of(output)
    (rewrap,) = [e for e in cuts if e.name == "rewrap"]
    assert "nn.Parameter(h)" in rewrap.place(module_names(module)).line
    tripled = next(e for e in recorder.events if e.name.startswith(("mul", "__mul")))
    assert "return fresh * 3" in tripled.place(module_names(module)).line

"""A range that a declared block takes of its own entries belongs to it; no other stop does."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional as F

from gradient_check.check import check_gradients
from gradient_check.exam.known.hosts import rows, squares

ZERO = torch.zeros((), dtype=torch.int32)


class Squashed(Function):
    """Squashes values to a range, and passes the gradient as if it did not."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, most: Tensor) -> Tensor:
        return (2 * x / most).tanh() * most

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return grads[0], None


class Ranged(nn.Module):
    """Puts its weight into a range."""

    def __init__(self, put: Callable[["Ranged", Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.weight, self.scale = nn.Parameter(torch.randn(8, 6)), nn.Parameter(torch.ones(8, 1))
        self.put = put

    def forward(self, x: Tensor) -> Tensor:
        weight = torch.tanh(self.weight)
        return F.linear(x, self.put(self, weight) + 0.1 * self.scale)


def by_detach(_: Ranged, w: Tensor) -> Tensor:
    most = w.detach().abs().amax(1, keepdim=True)
    return Squashed.apply(w, most)


def by_detach_at_last(_: Ranged, w: Tensor) -> Tensor:
    most = w.abs().amax(1, keepdim=True).clamp(min=1e-6).detach()
    return Squashed.apply(w, most)


def without_gradients(_: Ranged, w: Tensor) -> Tensor:
    with torch.no_grad():
        most = 1.1 * w.abs().amax(1, keepdim=True)
    return Squashed.apply(w, most)


def of_the_parameter(m: Ranged, _: Tensor) -> Tensor:
    most = m.weight.data.abs().amax(1, keepdim=True)
    return Squashed.apply(m.weight, most)


def of_torch(_: Ranged, w: Tensor) -> Tensor:
    scale = w.detach().abs().max() / 7
    return torch.fake_quantize_per_tensor_affine(w, scale, ZERO, -8, 7)


@pytest.mark.parametrize(
    "put", [by_detach, by_detach_at_last, without_gradients, of_the_parameter, of_torch]
)
def test_the_range_of_what_enters_a_declared_block_needs_no_declaration(put: Any) -> None:
    declared = "fake_quantize_per_tensor_affine" if put is of_torch else "Squashed.apply"
    report = check_gradients(Ranged(put), rows(8, 6), squares, surrogate_gradients=declared)
    assert report.passed
    assert [(f.level, f.code) for f in report.findings] == [("NOTE", "surrogate")]


def of_another(m: Ranged, w: Tensor) -> Tensor:
    most = m.scale.detach() * 0.5
    return Squashed.apply(w, most)


def used_outside(_: Ranged, w: Tensor) -> Tensor:
    most = w.detach().abs().amax(1, keepdim=True)
    return Squashed.apply(w, most) * most


def entry_stopped(_: Ranged, w: Tensor) -> Tensor:
    most = w.detach().abs().amax(1, keepdim=True)
    return Squashed.apply(w.detach(), most) + 0.1 * w


@pytest.mark.parametrize("put", [of_another, used_outside, entry_stopped])
def test_another_stop_beside_a_declared_block_fails(put: Any) -> None:
    report = check_gradients(
        Ranged(put), rows(8, 6), squares, surrogate_gradients="Squashed.apply(w, most)"
    )
    assert "gradient-wrong" in [f.code for f in report.findings if f.level == "FAIL"]


def test_the_range_of_what_is_reversed_is_no_part_of_the_reversal() -> None:
    class Turned(Squashed):
        @staticmethod
        def forward(ctx: Any, x: Tensor, most: Tensor) -> Tensor:
            ctx.save_for_backward(most)
            return x / most

        @staticmethod
        def backward(ctx: Any, *grads: Tensor) -> Any:
            return -grads[0] / ctx.saved_tensors[0], None

    def put(_: Ranged, w: Tensor) -> Tensor:
        most = w.detach().square().mean(1, keepdim=True)
        return Turned.apply(w, most)

    report = check_gradients(
        Ranged(put), rows(8, 6), squares, reversed_gradients={"Turned.apply": -1.0}
    )
    assert not report.passed

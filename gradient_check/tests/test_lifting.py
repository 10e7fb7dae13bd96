"""Where a module casts to 16 bits of its own, its gradients are checked without the casts too."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional as F

from gradient_check import check_gradients
from gradient_check.exam.known.hosts import rows, squares
from gradient_check.instruments.lifting import Lifted, has_sixteen_bits, in_float32
from gradient_check.tests.present import present


class Silu(Function):
    """Sound, in the newer form of a function."""

    @staticmethod
    def forward(x):
        return x * torch.sigmoid(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        gate = torch.sigmoid(x)
        return gradient * (gate + x * gate * (1 - gate))


class WrongInSixteenBits(Silu):
    @staticmethod
    def backward(ctx, gradient):  # here
        (x,) = ctx.saved_tensors
        if x.dtype in (torch.bfloat16, torch.float16):
            return gradient * torch.sigmoid(x)
        return Silu.backward(ctx, gradient)


class Wrong(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, gradient):  # here
        (x,) = ctx.saved_tensors
        return gradient * torch.sigmoid(x)


def after_another(h: Tensor) -> Tensor:
    return Wrong.apply(Silu.apply(h))


def partly_stopped(h: Tensor) -> Tensor:
    return h + 0.5 * h.detach() * h  # here


def stopped_in_sixteen_bits(h: Tensor) -> Tensor:
    factor = h if h.dtype is torch.float32 else h.detach()  # here
    return h + 0.5 * factor * h


class Low(nn.Module):
    """Two layers, of which the second runs in 16 bits of its own, with a step after it."""

    def __init__(self, step: Any, kind: torch.dtype | None) -> None:
        super().__init__()
        self.first, self.second, self.out = nn.Linear(8, 16), nn.Linear(16, 16), nn.Linear(16, 3)
        self.step, self.kind = step, kind

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.first(x))
        if self.kind is None:
            with torch.autocast(x.device.type, torch.bfloat16):
                return self.out(self.step(self.second(h)).float())
        weight, bias = self.second.weight.to(self.kind), self.second.bias.to(self.kind)
        return self.out(self.step(F.linear(h.to(self.kind), weight, bias)).to(x.dtype))


KINDS = [torch.bfloat16, torch.float16, None]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "step",
    [
        *(Wrong.apply, after_another, WrongInSixteenBits.apply),
        *(partly_stopped, stopped_in_sixteen_bits),
    ],
)
def test_a_wrong_gradient_in_the_modules_own_16_bits_fails_with_its_line(step, kind) -> None:
    report = check_gradients(Low(step, kind), rows(16, 8), squares)
    (finding,) = (f for f in report.findings if f.level == "FAIL")
    assert finding.code == "gradient-wrong"
    assert present(finding.line).endswith("# here"), finding


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", [Silu.apply, F.silu, torch.relu])
def test_a_right_gradient_in_the_modules_own_16_bits_passes_without_a_warning(step, kind) -> None:
    report = check_gradients(Low(step, kind), rows(16, 8), squares)
    assert {f.level for f in report.findings} <= {"NOTE"}, report
    assert not report.left_out


class HalfProduct(Function):
    """Sound but for rounding, which its own casts bring into a net of float32."""

    factor = 1.0

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return (x.bfloat16() @ weight.bfloat16().T).float()

    @staticmethod
    def backward(ctx, gradient):
        x, weight = (saved.bfloat16() for saved in ctx.saved_tensors)
        low = gradient.bfloat16()
        return (low @ weight).float(), (low.T @ x).float()


class WrongHalfProduct(HalfProduct):
    @staticmethod
    def backward(ctx, gradient):  # here
        of_x, of_weight = HalfProduct.backward(ctx, gradient)
        return 0.8 * of_x, of_weight


class Product(nn.Module):
    def __init__(self, product: Any) -> None:
        super().__init__()
        self.first, self.out = nn.Linear(8, 16), nn.Linear(16, 3)
        self.weight, self.product = nn.Parameter(torch.eye(16) + 0.1), product

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.tanh(self.product.apply(torch.tanh(self.first(x)), self.weight)))


def test_a_function_that_casts_inside_is_judged_without_its_casts() -> None:
    report = check_gradients(Product(HalfProduct), rows(16, 8), squares)
    assert {f.level for f in report.findings} <= {"NOTE"}, report
    report = check_gradients(Product(WrongHalfProduct), rows(16, 8), squares)
    (finding,) = (f for f in report.findings if f.level == "FAIL")
    assert finding.code == "gradient-wrong"
    assert present(finding.line).endswith("# here"), finding


class Normed(nn.Module):
    """Its rounding was once taken for a wrong gradient of the norm."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.out = nn.Linear(6, 16), nn.LayerNorm(16), nn.Linear(16, 2)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, torch.bfloat16):
            h = F.gelu(self.norm(self.first(x)))
        return self.out(h.float())


class Quantized(Normed):
    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(self.first(x)).bfloat16()
        return self.out((h + ((h * 8).round() / 8 - h).detach()).float())


class Mixed(Normed):
    table: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.randn(16, 16).bfloat16())

    def forward(self, x: Tensor) -> Tensor:
        return self.out((self.norm(self.first(x)).bfloat16() @ self.table).float())


@pytest.mark.parametrize("kind", [Normed, Quantized, Mixed])
@pytest.mark.parametrize("seed", range(3))
def test_rounding_inside_a_sound_module_is_no_fault(kind, seed) -> None:
    torch.manual_seed(seed)
    report = check_gradients(kind(), rows(8, 6), squares)
    assert report.passed, report
    assert "rough" not in report.codes


class Strict(Low):
    """Refuses anything but its 16 bits."""

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x).bfloat16()
        assert h.dtype is torch.bfloat16
        return self.out(self.second(h.float()))


def test_what_cannot_run_without_its_16_bits_passes_and_the_comparison_is_left_out() -> None:
    report = check_gradients(Strict(torch.relu, None), rows(16, 8), squares)
    assert report.passed, report
    assert set(report.left_out) == {"rounding"}


def test_a_model_without_16_bits_is_not_compared() -> None:
    report = check_gradients(nn.Linear(8, 3), rows(16, 8), squares)
    assert "rounding" not in {check.name for check in report.checks}


def test_a_lifted_call_is_one_in_float32() -> None:
    x = torch.ones(2, 2, requires_grad=True)

    def calls() -> Tensor:
        low = x.bfloat16() @ torch.ones(2, 2, dtype=torch.bfloat16)
        return low.to(torch.float16).half() * torch.zeros(2, 2, dtype=torch.float32)

    assert calls().dtype is torch.float32
    assert has_sixteen_bits(calls())
    with Lifted(), torch.autocast("cpu", torch.bfloat16):
        lifted = calls() + x @ x
    assert not has_sixteen_bits(lifted)


@pytest.mark.parametrize("function", [Silu, Wrong])
def test_a_function_in_float32_gives_what_it_was_asked_for_and_is_put_back(function) -> None:
    kept = dict(vars(function))
    x = torch.ones(2, dtype=torch.bfloat16, requires_grad=True)
    with in_float32(function):
        result = function.apply(x)
        result.sum().backward()
    assert result.dtype is torch.bfloat16
    assert present(x.grad).dtype is torch.bfloat16
    assert {n: v for n, v in vars(function).items() if n in kept} == kept

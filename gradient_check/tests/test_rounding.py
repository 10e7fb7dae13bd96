"""In 16 bits a gradient may be off by the module's own rounding, and by no more."""

import pytest
import torch
from torch import nn

from gradient_check import check_gradients
from gradient_check.exam.known.plain import PROBE, Net, entropy
from gradient_check.tests.present import present


class Shortened(torch.autograd.Function):
    """Loses a part of its gradient in 16 bits alone."""

    @staticmethod
    def forward(ctx, x, share):
        ctx.share = share
        return x * 1.0

    @staticmethod
    def backward(ctx, gradient):
        is_coarse = gradient.dtype in (torch.bfloat16, torch.float16)
        return gradient * (1 - ctx.share if is_coarse else 1), None


class Faulty(Net):
    def __init__(self, share):
        super().__init__()
        self.share = share

    def mid(self, h):
        return super().mid(Shortened.apply(self.inner(h), self.share))

    def inner(self, h):
        return nn.functional.linear(h, torch.eye(8))


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("share", [0.2, 0.08])
def test_a_backward_that_is_wrong_in_16_bits_alone_fails_with_its_line(precision, share):
    torch.manual_seed(0)
    report = check_gradients(Faulty(share), PROBE, entropy, precision=precision)
    (finding,) = (f for f in report.findings if f.level == "FAIL")
    assert finding.code == "gradient-wrong"
    assert "def backward" in present(finding.line)
    assert {"inp.weight", "inp.bias"} == set(finding.parameters)
    assert check_gradients(Faulty(share), PROBE, entropy).passed


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("seed", range(6))
def test_rounding_that_is_large_beside_a_gradient_is_no_fault(precision, seed):
    """A key's bias has no gradient but what attention's rounding leaves."""
    torch.manual_seed(seed)
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
    model = nn.Sequential(layer, nn.BatchNorm1d(5), nn.Linear(16, 2))
    loss = lambda output: output.square().flatten(1).mean(1)  # noqa: E731
    report = check_gradients(model, torch.randn(4, 5, 16), loss, precision=precision)
    assert "gradient-wrong" not in report.codes, report
    (check,) = (check for check in report.checks if check.name == "rounding")
    assert 0 < check.numbers["rounding"] < 0.1


class Casts(Net):
    """Runs in 16 bits alone."""

    def mid(self, h):
        assert h.dtype is torch.bfloat16
        return h

    def forward(self, x):
        return self.out(self.mid(self.inp(x)))


def test_where_float32_cannot_run_the_comparison_is_left_out_by_name():
    report = check_gradients(Casts(), PROBE, entropy, precision="bf16")
    assert report.passed, report
    assert set(report.left_out) == {"rounding", "zero entries"}
    assert "AssertionError" in report.left_out["rounding"]
    strict = check_gradients(Casts(), PROBE, entropy, precision="bf16", strict=True)
    assert "left-out" in strict.codes

"""What perturbed values, eval mode or the copy of a replica would hide is verified, or said."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from gradient_check import check_gradients
from gradient_check.exam.known.plain import PROBE, Net, entropy
from gradient_check.tests.present import present


class Tied(Net):
    def __init__(self):
        super().__init__()
        self.deep = nn.Linear(8, 8)
        self.deep.weight.data = self.inp.weight.data

    def mid(self, h):
        return torch.tanh(self.deep(h))


def test_parameters_that_are_tied_through_data_fail_and_views_of_one_buffer_do_not():
    report = check_gradients(Tied(), PROBE, entropy)
    (finding,) = report.findings
    assert (finding.code, finding.level) == ("tied-data", "FAIL")
    assert set(finding.parameters) == {"inp.weight", "deep.weight"}
    sound, flat = Tied(), torch.randn(128)
    sound.inp.weight.data, sound.deep.weight.data = flat[:64].view(8, 8), flat[64:].view(8, 8)
    assert check_gradients(sound, PROBE, entropy).passed
    sound.deep.weight = sound.inp.weight
    assert check_gradients(sound, PROBE, entropy).passed


class Normed(Net):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(8)

    def mid(self, h):
        return self.norm(h)


@pytest.mark.parametrize(
    ("rows", "training", "warns"), [(1, True, True), (1, False, False), (4, True, False)]
)
def test_a_batch_norm_with_one_row_is_said_where_the_module_trains_in_it(rows, training, warns):
    module = Normed().train(training)
    report = check_gradients(module, PROBE[:rows], entropy)
    assert report.passed, report
    assert ("one-row-norm" in report.codes) is warns


class Negated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1.0

    @staticmethod
    def backward(ctx, gradient):
        return -gradient


class Scaled(Net):
    def __init__(self):
        super().__init__()
        self.branch = nn.Linear(8, 8)
        self.scale = nn.Parameter(1e-6 * torch.ones(8))

    def mid(self, h):
        return h + self.scale * self.turned(torch.tanh(self.branch(h)))

    def turned(self, h):
        return h


class ScaledNegated(Scaled):
    def turned(self, h):
        return Negated.apply(h)


def test_what_lies_behind_a_tiny_layer_scale_is_verified():
    assert check_gradients(Scaled(), PROBE, entropy).unverified == ()
    report = check_gradients(ScaledNegated(), PROBE, entropy)
    finding = report.findings[0]
    assert finding.code == "gradient-wrong"
    assert "branch.weight" in finding.parameters


class Rooted(Net):
    """A tiny number that stands under a root, where one of the other sign would be none."""

    def __init__(self):
        super().__init__()
        self.eps = nn.Parameter(torch.full((8,), 1e-6))

    def mid(self, h):
        return h / torch.sqrt(h.square().mean(-1, keepdim=True) + 1e-3 + torch.sqrt(self.eps))


def test_a_tiny_number_keeps_its_sign():
    report = check_gradients(Rooted(), PROBE, entropy)
    assert report.passed, report


class Dropping(Net):
    def mid(self, h):
        return F.dropout(h, 0.5)  # drops


def test_the_line_that_draws_in_inference_is_named():
    report = check_gradients(Dropping(), PROBE, entropy)
    (finding,) = (f for f in report.findings if f.code == "random-inference")
    assert "# drops" in present(finding.line)


def refuse(gradient):
    raise ValueError("not mine")


def test_a_hook_that_raises_is_named_as_such():
    module = Net()
    module.inp.weight.register_hook(refuse)
    finding = check_gradients(module, PROBE, entropy).findings[0]
    assert finding.code == "backward"
    assert "a hook" in finding.message
    assert "Do not write to tensors" not in finding.message
    assert "in `refuse`" in finding.message
    assert 'raise ValueError("not mine")' in present(finding.line)

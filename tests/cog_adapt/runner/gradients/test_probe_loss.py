"""Both forms of a loss are told apart and called with every form of probe."""

import functools

import pytest
import torch
from torch import nn

from cog_adapt.runner.gradients.probe_loss import LossShapeError, ProbeLoss, call, takes_module


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (lambda module, probe: None, True),
        (lambda output: None, False),
        (lambda output, weight=1.0: None, False),
        (functools.partial(lambda a, module, probe: None, 1), True),
        (torch.mean, False),
        (torch.Tensor.sum, False),
        (nn.Flatten(), False),
    ],
)
def test_two_required_arguments_are_module_and_probe(loss, expected: bool) -> None:
    assert takes_module(loss) is expected


def test_the_probe_s_form_decides_how_the_module_is_called() -> None:
    class Echo(nn.Module):
        def forward(self, *args, **kwargs):
            return args, kwargs

    assert call(Echo(), (1, 2)) == ((1, 2), {})
    assert call(Echo(), {"a": 1}) == ((), {"a": 1})
    assert call(Echo(), [1]) == (([1],), {})


def test_each_call_gets_its_own_copy_of_the_probe() -> None:
    probe = torch.ones(2, 3)
    ProbeLoss(lambda module, x: x.mul_(2).sum(1), probe)(nn.Identity(), probe)
    assert bool((probe == 1).all())


@pytest.mark.parametrize(
    ("shape", "fits"), [((), True), ((2,), True), ((5,), False), ((2, 3), False)]
)
def test_losses_are_a_scalar_or_one_for_each_example(shape, fits: bool) -> None:
    probe = torch.ones(2, 3)
    loss = ProbeLoss(lambda module, x: torch.zeros(shape), probe)
    loss(nn.Identity(), probe)
    assert loss.shape_fits is fits


@pytest.mark.parametrize(
    "value", [1.0, None, torch.zeros(2, dtype=torch.complex64), torch.zeros(0)]
)
def test_what_cannot_be_minimised_is_refused(value) -> None:
    with pytest.raises(LossShapeError):
        ProbeLoss(lambda output: value, torch.ones(2))(nn.Identity(), torch.ones(2))


def test_tampering_is_noted_and_the_dtype_put_back() -> None:
    def tamper(output):
        torch.set_default_dtype(torch.float64)
        return output.sum()

    loss = ProbeLoss(tamper, torch.ones(2))
    loss(nn.Identity(), torch.ones(2))
    assert "default dtype" in loss.tampering
    assert torch.get_default_dtype() is torch.float32

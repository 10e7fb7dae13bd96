"""Both forms of a loss are told apart and called with every form of probe."""

import collections
import contextlib
import functools
import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from gradient_check.instruments.loss_forms import takes_module
from gradient_check.instruments.probe_loss import LossShapeError, ProbeLoss, call


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


def test_whether_the_last_call_came_to_its_end_is_known() -> None:
    outcomes: Any = iter([torch.ones(2), None])
    loss = ProbeLoss(lambda output: next(outcomes) * 1, torch.ones(2))
    assert not loss.finished
    loss(nn.Identity(), torch.ones(2))
    assert loss.finished
    with pytest.raises(TypeError):
        loss(nn.Identity(), torch.ones(2))
    assert not loss.finished


def test_the_observer_sees_the_losses_and_the_recorder_is_entered() -> None:
    seen: list[Any]
    seen, entered = [], []

    @contextlib.contextmanager
    def recorder():
        entered.append(True)
        yield

    loss = ProbeLoss(lambda output: output.sum(), torch.ones(2))
    loss.observer, loss.recorder = seen.append, recorder()
    value = loss(nn.Identity(), torch.ones(2))
    assert seen == [value]
    assert entered == [True]
    assert loss.shape == ()


def test_python_and_numpy_are_seeded_only_if_asked_for() -> None:
    drawn: Any = []
    loss = ProbeLoss(
        lambda output: (drawn.append((random.random(), np.random.rand())), output.sum())[1],
        torch.ones(2),
    )
    states = random.getstate(), np.random.get_state()
    for seed in (3, 3, None, 4):
        loss.seed = seed
        loss(nn.Identity(), torch.ones(2))
    random.setstate(states[0])
    np.random.set_state(states[1])
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) == 3


def test_a_probe_that_takes_a_gradient_takes_it_as_a_leaf_of_its_own() -> None:
    probe = torch.ones(2, 3, requires_grad=True)
    copies: Any = []
    loss = ProbeLoss(lambda module, x: (copies.append(x), x.sum(1))[1], probe)
    loss(nn.Identity(), probe)
    assert copies[0] is not probe
    assert copies[0].requires_grad
    assert copies[0].is_leaf
    plain = probe.detach()
    loss(nn.Identity(), plain)
    assert not copies[1].requires_grad


def test_a_mapping_is_taken_as_a_dict() -> None:
    class Batch(collections.UserDict):
        """As transformers has it."""

    probe = Batch(x=torch.ones(2, 3))
    loss = ProbeLoss(lambda output: output.sum(1), probe)
    assert loss.rows == {2}
    assert loss(Named(), probe).shape == (2,)
    assert loss.shape_fits


class Named(nn.Module):
    def forward(self, *, x):
        return x


def test_what_a_call_left_switched_is_told_with_both_values() -> None:
    def tamper(output):
        torch.set_grad_enabled(not torch.is_grad_enabled())
        return output.sum()

    loss = ProbeLoss(tamper, torch.ones(2))
    loss(nn.Identity(), torch.ones(2))
    torch.set_grad_enabled(True)
    assert loss.tampering == {"grad mode": "grad mode was True and is False"}


@pytest.mark.parametrize(
    ("shape", "probe", "fits"),
    [((), 1.0, True), ((4,), 1.0, True), ((4, 2), 1.0, False), ((1,), torch.ones(2), True)],
)
def test_without_rows_any_vector_fits(shape, probe, fits: bool) -> None:
    loss = ProbeLoss(lambda module, x: torch.zeros(shape), probe)
    loss(nn.Identity(), probe)
    assert loss.shape_fits is fits

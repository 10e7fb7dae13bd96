"""A parameter counts only if the loss moves with it; afterwards it is where it was."""

import math

import pytest
import torch
from torch import nn

from gradient_check.checks.loss_dependence import LossDependence
from gradient_check.exam.known.hosts import Block, Tower, squares
from gradient_check.instruments.differences import FLOAT32, SIXTEEN_BIT
from gradient_check.tests.flows import ran, subject_of, tower


def spare() -> nn.Module:
    module = tower()
    module.spare = nn.Linear(3, 3)
    return module


def test_those_the_loss_depends_on_are_told_from_the_others() -> None:
    flow = ran(spare())
    before = {n: p.detach().clone() for n, p in flow.subject.parameters.items()}
    names = flow.subject.names
    found = LossDependence.of(flow).dependent(names)
    assert found == [name for name in names if not name.startswith("spare")]
    assert all(torch.equal(p, before[n]) for n, p in flow.subject.parameters.items())


def test_of_none_none_depend() -> None:
    dependence = LossDependence.of(ran(spare()))
    assert dependence.dependent([]) == []
    assert dependence.dependent(["spare.weight", "spare.bias"]) == []


def gate(start: float):
    """A block that lets values through only above a bias that starts here."""

    class Gate(Block):
        def __init__(self) -> None:
            super().__init__()
            self.threshold = nn.Parameter(torch.full((1,), start))

        def spoil(self, h):
            return h + torch.relu(self.threshold - 1)

    return Tower(Gate())


def test_a_parameter_behind_a_shut_gate_is_asleep_but_moved_further_it_matters() -> None:
    subject = subject_of(gate(0.9))
    dependence = LossDependence(subject, subject.forward(), FLOAT32, 0.0)
    assert dependence.is_asleep("blocks.1.threshold")
    assert not dependence.is_asleep("head.weight")
    noises = [
        dependence.dependent(["blocks.1.threshold"]),
        dependence.dependent(["head.weight"]),
    ]
    assert noises[1] == ["head.weight"]


def test_the_limit_follows_loss_precision_and_spread() -> None:
    subject = subject_of(tower())
    assert LossDependence(subject, -2.0, FLOAT32, 0.0).limit == pytest.approx(2e-5)
    assert LossDependence(subject, 2.0, SIXTEEN_BIT, 0.0).limit == pytest.approx(2e-3)
    assert LossDependence(subject, 0.0, FLOAT32, 0.5).limit == pytest.approx(1.5)


def test_without_a_loss_the_forwards_own_is_taken() -> None:
    subject = subject_of(tower())
    assert LossDependence(subject, math.nan, FLOAT32, 0.0).loss == subject.forward()
    assert LossDependence(subject, 7.0, FLOAT32, 0.0).loss == 7.0


def test_a_loss_that_becomes_nan_has_moved() -> None:
    calls = []

    def loss(output):
        calls.append(1)
        return squares(output) if len(calls) == 1 else squares(output) * math.nan

    subject = subject_of(tower(), loss=loss)
    assert LossDependence(subject, subject.forward(), FLOAT32, 0.0).dependent(["head.bias"])


def test_changes_below_the_noise_do_not_count() -> None:
    subject = subject_of(tower())
    assert LossDependence(subject, subject.forward(), FLOAT32, 1e9).dependent(["head.bias"]) == []

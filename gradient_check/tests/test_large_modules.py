"""What is found in a module does not depend on whether it counts as large."""

from typing import Any

import pytest
from torch import Tensor

from gradient_check.check import check_gradients
from gradient_check.exam.case import Question
from gradient_check.exam.known.hosts import rows, squares
from gradient_check.tests.flows import tower
from gradient_check.tests.test_check import FAULTS, HEALTHY
from gradient_check.tests.test_check import test_a_fault_is_named_with_its_place as check_fault
from gradient_check.tests.test_check import test_a_healthy_model_passes as check_healthy

KINDS = ("ModuleHook", "hook_after", "CarriesItsState", "Renormalised", "closure_over", "acc_loss")


@pytest.fixture(autouse=True)
def everything_is_large(monkeypatch) -> None:
    monkeypatch.setattr("gradient_check.instruments.subject.SMALL_BYTES", 0)


@pytest.mark.parametrize(
    "fault",
    [f for n, f in enumerate(FAULTS) if n % 8 == 0 or f.name.startswith(KINDS)],
    ids=lambda fault: fault.name,
)
def test_a_fault_of_a_large_module_is_named_with_its_place(fault: Question) -> None:
    check_fault(fault)


@pytest.mark.parametrize("model", HEALTHY[::5], ids=lambda model: model.name)
def test_a_large_healthy_model_passes(model: Question) -> None:
    check_healthy(model)


def carrying(self: Any, h: Tensor) -> Tensor:
    """Add what the forward before kept, with its graph; a portion's backward goes through it."""
    if h.requires_grad:
        h, self.kept = h + getattr(self, "kept", 0.0), h
    return h


def test_a_graph_that_is_kept_is_told_where_a_further_portion_needs_a_backward() -> None:
    report = check_gradients(tower(carrying), rows(3, 6), squares)
    assert "backward" in report.codes
    assert not [finding for finding in report.findings if "was stopped" in finding.message]

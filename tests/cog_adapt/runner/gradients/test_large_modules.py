"""What is found in a module does not depend on whether it counts as large."""

import pytest

from tests.cog_adapt.runner.gradients.cases import Fault, Healthy
from tests.cog_adapt.runner.gradients.faults import FAULTS
from tests.cog_adapt.runner.gradients.healthy import HEALTHY
from tests.cog_adapt.runner.gradients.test_check import (
    test_a_fault_is_named_with_its_place as check_fault,
)
from tests.cog_adapt.runner.gradients.test_check import (
    test_a_healthy_model_passes as check_healthy,
)

KINDS = ("ModuleHook", "hook_after", "CarriesItsState", "Renormalised", "closure_over", "acc_loss")


@pytest.fixture(autouse=True)
def everything_is_large(monkeypatch) -> None:
    monkeypatch.setattr("cog_adapt.runner.gradients.subject.SMALL_BYTES", 0)


@pytest.mark.parametrize(
    "fault",
    [f for n, f in enumerate(FAULTS) if n % 8 == 0 or f.name.startswith(KINDS)],
    ids=lambda fault: fault.name,
)
def test_a_fault_of_a_large_module_is_named_with_its_place(fault: Fault) -> None:
    check_fault(fault)


@pytest.mark.parametrize("model", HEALTHY[::5], ids=lambda model: model.name)
def test_a_large_healthy_model_passes(model: Healthy) -> None:
    check_healthy(model)

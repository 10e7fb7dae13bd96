"""What intended stops account for is excused; what is wrong besides fails with its culprit."""

from typing import Any

import pytest
from torch import Tensor, nn
from torch.overrides import _get_current_function_mode

from gradient_check import check_gradients
from gradient_check.exam.known.faults_users import Halved, StraightThrough
from gradient_check.exam.known.hosts import rows, squares
from gradient_check.tests.flows import tower
from gradient_check.tests.present import present


def levels(report: Any) -> list[tuple[str, str]]:
    return [(finding.level, finding.code) for finding in report.findings]


def cut(self: Any, h: Tensor) -> Tensor:
    return h * h.mean(-1, keepdim=True).detach()


def test_a_declared_stop_is_a_note_and_an_undeclared_one_fails() -> None:
    report = check_gradients(tower(cut), rows(3, 6), squares)
    assert levels(report) == [("FAIL", "gradient-wrong")]
    for pattern in (r"blocks\.1", "h.mean(-1, keepdim=True).detach()"):
        report = check_gradients(tower(cut), rows(3, 6), squares, stop_gradients=(pattern,))
        assert report.passed, report
        assert levels(report) == [("NOTE", "stop-gradient")]
        assert "detach()" in present(report.findings[0].line)


def test_a_declared_stop_that_is_not_there_is_a_warning() -> None:
    report = check_gradients(tower(), rows(3, 6), squares, stop_gradients=("gone",))
    assert report.passed
    assert levels(report) == [("WARN", "stop-gradient")]


def test_a_declared_stop_excuses_nothing_else() -> None:
    def both(self: Any, h: Tensor) -> Tensor:
        return cut(self, Halved.apply(h))

    report = check_gradients(
        tower(both), rows(3, 6), squares, stop_gradients=(".mean(-1, keepdim=True).detach()",)
    )
    failed = [finding for finding in report.findings if finding.level == "FAIL"]
    assert [finding.code for finding in failed] == ["gradient-wrong"]
    assert "def backward" in present(failed[0].line)


def test_a_target_without_any_gradient_can_be_declared() -> None:
    class Target(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.online, self.target = nn.Linear(6, 6), nn.Linear(6, 6)

        def forward(self, x: Tensor) -> Tensor:
            return self.online(x) - self.target(x).detach()

    report = check_gradients(Target(), rows(3, 6), squares)
    assert levels(report) == [("FAIL", "graph-cut")]
    for pattern in (r"target\..*", "self.target(x).detach()"):
        report = check_gradients(Target(), rows(3, 6), squares, stop_gradients=(pattern,))
        assert report.passed, report
        assert levels(report) == [("NOTE", "stop-gradient")]


def test_a_straight_through_estimator_excuses_only_what_passes_it() -> None:
    module = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6), StraightThrough(), nn.Linear(6, 2))
    report = check_gradients(module, rows(3, 6), squares)
    assert levels(report) == [("WARN", "surrogate")]
    assert "3.weight" not in report.findings[0].parameters


@pytest.mark.parametrize(
    "declared",
    [{}, {"stop_gradients": ["gone"]}, {"surrogate_gradients": ["gone"]}],
)
def test_a_fault_is_told_where_the_code_refuses_to_run_under_its_diagnosis(
    declared: dict[str, Any],
) -> None:
    def loss(module: nn.Module, x: Tensor) -> Tensor:
        if _get_current_function_mode() is not None:
            raise RuntimeError("no modes here")
        return squares(module(x))

    report = check_gradients(tower(cut), rows(3, 6), loss, **declared)
    assert levels(report)[0] == ("FAIL", "gradient-wrong")
    assert report.codes.count("blocks") == 0

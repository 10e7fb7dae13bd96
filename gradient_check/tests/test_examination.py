"""Checks run in order, note what they find, and are skipped where their ground is missing."""

import time

import pytest

from gradient_check.findings.examination import Examination, describe
from gradient_check.findings.report import Check, Finding


def test_a_check_that_finds_nothing_has_passed_with_its_numbers() -> None:
    exam = Examination()
    assert exam.check("one", lambda: {"error": 0.5}) is True
    (check,) = exam.checks
    assert (check.name, check.status, check.numbers) == ("one", "passed", {"error": 0.5})


def test_time_is_measured() -> None:
    exam = Examination()
    exam.check("slow", lambda: time.sleep(0.02))
    assert 0.02 <= exam.checks[0].seconds < 2
    assert exam.checks[0].numbers == {}


@pytest.mark.parametrize(
    ("levels", "status"),
    [
        (["NOTE"], "passed"),
        (["WARN"], "warned"),
        (["FAIL"], "failed"),
        (["WARN", "FAIL"], "failed"),
    ],
)
def test_the_worst_finding_is_the_checks_status(levels, status: str) -> None:
    exam = Examination()

    def check() -> None:
        for level in levels:
            exam.add(level, level.lower(), "text")

    passed = exam.check("one", check)
    assert exam.checks[0].status == status
    assert passed is (status != "failed")


def test_only_the_findings_of_a_check_count_for_it() -> None:
    exam = Examination()
    exam.add("FAIL", "earlier", "text")
    assert exam.check("one", lambda: None)
    assert exam.checks[0].status == "passed"


def test_a_check_whose_ground_is_missing_is_skipped_and_does_not_run() -> None:
    exam = Examination()
    assert exam.check("one", lambda: pytest.fail("it ran"), needs=("a", "b")) is False
    assert exam.checks == [Check("one", "skipped", 0.0, reason="the check of the a did not pass")]
    exam.check("two", lambda: None, needs=("served",))
    assert exam.checks[1].reason == "inference raised, or two answers differed"
    exam.grounds.update("ab")
    assert exam.check("three", lambda: None, needs=("a", "b")) is True


def test_a_check_that_cannot_be_held_is_left_out_with_its_reason_and_a_failure_stays_one() -> None:
    exam = Examination()
    exam.check("one", lambda: exam.leave_out("no room"))
    exam.check("two", lambda: None)

    def both() -> None:
        exam.leave_out("no room")
        exam.add("FAIL", "code", "text")

    exam.check("three", both)
    found = [(check.status, check.reason) for check in exam.checks]
    assert found == [("skipped", "no room"), ("passed", ""), ("failed", "no room")]


def test_an_error_is_a_finding_under_the_checks_name() -> None:
    exam = Examination()
    assert exam.check("one", lambda: dict[str, dict[str, float]]()["gone"]) is False
    (finding,) = exam.findings
    assert (finding.code, finding.level) == ("one", "FAIL")
    assert finding.message == "the check was stopped by KeyError: 'gone'"


def test_a_cancellation_passes_through() -> None:
    def cancelled() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Examination().check("one", cancelled)


def test_a_finding_is_kept_once_with_all_its_parts() -> None:
    exam = Examination()
    for _ in range(2):
        exam.add("FAIL", "a", "text", parameters=["p"], module="m", line="l")
        exam.add("WARN", "b", "text", parameters=["q"], module="n", line="k")
    assert exam.findings == [
        Finding("a", "FAIL", "text", ("p",), "m", "l"),
        Finding("b", "WARN", "text", ("q",), "n", "k"),
    ]


def test_codes_can_be_asked_for() -> None:
    exam = Examination()
    exam.add("WARN", "b", "text")
    assert exam.has("a", "b")
    assert not exam.has("a")


def test_an_error_is_described_by_its_class_and_first_line() -> None:
    assert describe(ValueError("one\ntwo")) == "ValueError: one"
    assert describe(ValueError()) == "ValueError"
    assert describe(ValueError("x" * 500)) == "ValueError: " + "x" * 240 + " …"
    assert describe(ValueError("ab " * 99)) == "ValueError: " + "ab " * 79 + "ab …"

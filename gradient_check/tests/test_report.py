"""The report says what was found, and can be read by people and programs."""

import dataclasses
import json
from typing import Any

import pytest

from gradient_check.findings.report import Check, Finding, GradientReport, Place, count, some
from gradient_check.phases.errors import GradientFlowError

CUT = Finding("graph-cut", "FAIL", "2 parameters get no gradient.", ("a", "b"), "block (B)", "f:1")
DEAD = Finding("dead", "WARN", "1 gradient is 0.", ("c",))


def report(*findings: Finding) -> GradientReport:
    skipped = Check("blocks", "skipped", 0.0, reason="there are no gradients")
    checks = (Check("forward", "passed", 0.1, {"loss": 1.0}), skipped)
    return GradientReport(findings, checks, {"a": 0.5}, "cpu/fp32", 0.25)


def test_warnings_do_not_fail_a_report() -> None:
    assert report(DEAD).passed
    report(DEAD).raise_if_failed()


def test_a_failure_is_raised_with_the_whole_text() -> None:
    with pytest.raises(GradientFlowError, match="graph-cut.*Where: block [(]B[)], f:1"):
        report(CUT, DEAD).raise_if_failed()


def test_the_text_counts_the_checks_that_ran() -> None:
    assert "1 of 2 checks run, cpu/fp32, 0.25 s" in str(report(CUT))


def test_a_passing_verdict_counts_what_is_unverified_and_names_what_was_left_out() -> None:
    unseen = Finding("unverified", "NOTE", "not verified", ("a", "b"))
    missed = Finding("unreached", "WARN", "not reached", ("b", "c"))
    found = report(unseen, missed)
    verdict = str(found).splitlines()[0]
    assert "1 trained tensors with a gradient, 3 unverified, " in verdict
    assert "1 of 2 checks run (left out: blocks), " in verdict
    plain = found.to_json()
    assert plain["unverified"] == ("a", "b", "c")
    assert plain["left_out"] == {"blocks": "there are no gradients"}


def test_strictly_what_is_unverified_or_left_out_fails_by_name() -> None:
    unseen = Finding("unverified", "NOTE", "not verified", ("a", "b"))
    found = report(unseen).strictly()
    assert not found.passed
    left_out, unverified = found.findings[:2]
    assert (left_out.code, unverified.code) == ("left-out", "unverified-strict")
    assert "blocks (there are no gradients)" in left_out.message
    assert unverified.parameters == ("a", "b")
    whole = GradientReport((), report().checks[:1], {"a": 0.5}, "cpu/fp32", 0.25)
    assert whole.strictly() == whole
    assert report(CUT).strictly() == report(CUT)


def test_codes_are_listed_once() -> None:
    assert report(CUT, DEAD, DEAD).codes == ("graph-cut", "dead")


def test_json_has_every_field() -> None:
    plain = json.loads(json.dumps(report(CUT).to_json()))
    assert plain["passed"] is False
    assert plain["findings"][0]["line"] == "f:1"
    assert plain["checks"][0]["numbers"] == {"loss": 1.0}


def test_long_lists_of_names_are_cut() -> None:
    assert some(["a", "b"]) == "a, b"
    assert some(list("abcdef")) == "a, b, c, d and 2 more"


def test_names_that_just_fit_are_all_shown() -> None:
    assert some(list("abcd")) == "a, b, c, d"
    assert some(list("abcde")) == "a, b, c, d and 1 more"


def test_one_is_singular_and_others_are_plural() -> None:
    assert [count("a" * n) for n in (0, 1, 2)] == ["0 parameters", "1 parameter", "2 parameters"]
    assert count("ab", "gradient") == "2 gradients"


def test_the_first_line_says_how_it_ended_and_the_others_what_was_found() -> None:
    assert str(report(DEAD)).splitlines() == [
        "gradient self-test passed: 1 trained tensors with a gradient, 0 unverified, "
        "1 of 2 checks run (left out: blocks), cpu/fp32, 0.25 s",
        "  WARN dead: 1 gradient is 0.",
    ]
    first, second = str(report(CUT)).splitlines()
    assert first.startswith("gradient self-test FAILED:")
    assert second == "  FAIL graph-cut: 2 parameters get no gradient. Where: block (B), f:1"


def test_what_was_found_cannot_be_changed() -> None:
    values: tuple[Any, ...] = (CUT, report(), report().checks[0], Place())
    for value in values:
        with pytest.raises(dataclasses.FrozenInstanceError):
            value.line = value.status = value.seconds = None

"""A report fails where a part failed, and one that is off has neither passed nor failed."""

import pytest

from cog_adapt.runner.errors import GradientFlowError
from cog_adapt.runner.gradients import Finding, GradientReport
from cog_adapt.runner.selftest.report import SelfTestReport

SOUND = GradientReport((), (), {}, "cpu/fp32", 0.0)
FAILED = GradientReport((Finding("dead", "FAIL", "nothing"),), (), {}, "cpu/fp32", 0.0)


def test_it_has_passed_where_every_part_has():
    assert SelfTestReport((SOUND, SOUND), "quick").to_json()["passed"] is True
    report = SelfTestReport((SOUND, FAILED))
    assert (report.passed, report.to_json()["level"]) == (False, "full")
    with pytest.raises(GradientFlowError, match="dead"):
        report.raise_if_failed()


def test_one_that_is_off_says_so_and_raises_nothing():
    report = SelfTestReport((), "off")
    report.raise_if_failed()
    assert report.passed is False
    assert report.to_json()["passed"] is None
    assert "SELF_TEST=off" in str(report)

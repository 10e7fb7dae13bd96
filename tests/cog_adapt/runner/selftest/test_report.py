"""A report fails where a part failed, and one that is off has neither passed nor failed."""

import json
from pathlib import Path

import pytest

from cog_adapt.runner.errors import ConfigError, GradientFlowError
from cog_adapt.runner.selftest.report import SelfTestReport, check_writable, write_json
from gradient_check import Check, Finding, GradientReport

SOUND = GradientReport((), (), {}, "cpu/fp32", 0.0)
FAILED = GradientReport((Finding("dead", "FAIL", "nothing"),), (), {}, "cpu/fp32", 0.0)


def test_it_has_passed_where_every_part_has():
    assert SelfTestReport((SOUND, SOUND), "quick").to_json()["passed"] is True
    report = SelfTestReport((SOUND, FAILED))
    assert (report.passed, report.to_json()["level"]) == (False, "full")
    with pytest.raises(GradientFlowError, match="dead"):
        report.raise_if_failed()


def test_strictly_it_fails_where_a_part_left_something_out():
    gap = GradientReport((), (Check("a", "skipped", 0.0, reason="why"),), {}, "cpu/fp32", 0.0)
    assert SelfTestReport((SOUND, gap)).passed
    assert SelfTestReport((SOUND, gap)).strictly().codes == ("left-out",)
    assert SelfTestReport((SOUND,)).strictly().passed


def test_one_that_is_off_says_so_and_raises_nothing():
    report = SelfTestReport((), "off")
    report.raise_if_failed()
    assert report.passed is False
    assert report.to_json()["passed"] is None
    assert "SELF_TEST=off" in str(report)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "it is a folder"),
        ("gone/report.json", "there is no folder '.*gone'"),
        ("a" * 300, "File name too long"),
        ("kept.json/report.json", "there is no folder '.*kept.json'"),
    ],
)
def test_a_file_that_cannot_be_written_is_refused_with_its_path(tmp_path, name, reason):
    (tmp_path / "kept.json").write_text("")
    with pytest.raises(ConfigError, match=f"--json '.*{name}' cannot be written: {reason}"):
        check_writable(tmp_path / name)
    with pytest.raises(ConfigError, match="cannot be written: .* Name a file in a folder"):
        write_json(tmp_path / name, {})


def test_a_file_that_may_not_be_written_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(ConfigError, match="it may not be written"):
        check_writable(tmp_path / "report.json")


def test_a_file_that_can_be_written_is_left_alone_until_it_is(tmp_path, monkeypatch):
    path, old = tmp_path / "report.json", tmp_path / "old.json"
    old.write_text("old")
    monkeypatch.chdir(tmp_path)
    for each in (path, old, Path("report.json")):
        check_writable(each)
    assert (path.exists(), old.read_text()) == (False, "old")
    write_json(path, {"passed": True})
    assert json.loads(path.read_text()) == {"passed": True}

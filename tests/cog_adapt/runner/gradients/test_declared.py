"""A declared stop is a note where it is found, and a warning where it is not."""

import pytest

from cog_adapt.runner.gradients.declared import DeclaredStops
from cog_adapt.runner.gradients.examination import Examination
from cog_adapt.runner.gradients.report import Place

PLACE = Place("blocks.1 (Block)", "model.py:7: return a * b.detach()")


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"blocks\.\d", True),
        ("blocks", False),
        ("b.detach()", True),
        ("model.py:7", True),
        ("model.py:8", False),
        ("b.detach(", True),
    ],
)
def test_a_stop_is_declared_by_module_or_line(pattern: str, expected: bool) -> None:
    stops = DeclaredStops([pattern])
    assert stops.admits(PLACE) is expected
    assert stops.found == ({pattern} if expected else set())


def test_a_stop_is_declared_by_the_line_inside_its_block() -> None:
    place = Place("a", "model.py:6: with torch.no_grad():", "model.py:7: target = self.net(x)")
    assert DeclaredStops(["target = self.net"]).admits(place)
    assert DeclaredStops(["torch.no_grad()"]).admits(place)
    assert not DeclaredStops(["other"]).admits(place)


def test_a_parameter_is_declared_by_its_whole_name() -> None:
    stops = DeclaredStops([r"target\..*", "head"])
    assert stops.names(["target.weight", "head.weight"]) == ["target.weight"]
    assert stops.found == {r"target\..*"}


def test_what_is_found_is_a_note_and_what_is_not_a_warning() -> None:
    exam, stops = Examination(), DeclaredStops(["b.detach()", "gone"])
    assert stops.admits(PLACE)
    stops.note(exam, ["a"], PLACE)
    stops.report_absent(exam)
    levels = [(finding.level, finding.code) for finding in exam.findings]
    assert levels == [("NOTE", "stop-gradient"), ("WARN", "stop-gradient")]
    assert "'gone'" in exam.findings[1].message
    assert "'b.detach()'" not in exam.findings[1].message


def test_a_stop_without_a_place_is_not_declared() -> None:
    assert not DeclaredStops([".*"]).admits(Place())

"""Every break can still be planted, and has its row; one harness plants them, one at a time."""

import random
from dataclasses import replace

import pytest

from bench.breaks.drawn import modules, plant
from bench.breaks.kinds import KINDS
from bench.breaks.planting import ROOT, Break, Suite, seen_by
from bench.breaks.table import NONE, NOT_YET, seen_before, write
from gradient_check.tests.present import present

WRITTEN = {name: kind.breaks(0, 0) for name, kind in KINDS.items()}
ALL = [each for breaks in WRITTEN.values() for each in breaks]
SUITE = Suite(("test_a.py",), ("-n", "0", "-c", "/dev/null"))
ADDS = Break("adds", "a.py", "x + y", "x - y")


@pytest.mark.parametrize("each", ALL, ids=lambda each: each.name)
def test_a_break_has_its_place_and_its_tests(each):
    if not (ROOT / each.path).exists():
        pytest.skip("the shipped task is not here")
    assert (ROOT / each.path).read_text().count(each.old) == 1
    assert (ROOT / each.tests).exists()


@pytest.mark.parametrize("name", [name for name in KINDS if WRITTEN[name]])
def test_each_break_is_another_and_has_its_row(name):
    names = [each.name for each in WRITTEN[name]]
    assert len({(each.path, each.old, each.new) for each in WRITTEN[name]}) == len(names) >= 20
    assert [*seen_before(ROOT / "docs/results/breaks.md", name)] == names


def test_the_files_of_tests_that_a_kind_is_shown_to_are_there():
    chosen = [path for kind in KINDS.values() for path in kind.suite.chosen if "/test_" in path]
    assert chosen
    assert all((ROOT / path).exists() for path in chosen)


def test_a_break_without_a_place_is_refused(tmp_path):
    (tmp_path / "a.py").write_text("x = 1\nx = 1\n")
    with pytest.raises(ValueError, match="2 times, not once"):
        Break("twice", "a.py", "x = 1", "x = 2").plant(tmp_path)
    Break("once", "a.py", "x = 1\nx", "y").plant(tmp_path)
    assert (tmp_path / "a.py").read_text() == "y = 1\n"


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """Two tests, of which one sees that numbers are no longer added."""
    monkeypatch.setattr("bench.breaks.planting.ROOT", tmp_path)
    (tmp_path / "a.py").write_text("def add(x, y):\n    return x + y\n")
    (tmp_path / "test_a.py").write_text(
        "from a import add\n\ndef test_zero():\n    assert add(1, 0) == 1\n\n"
        "def test_one():\n    assert add(1, 1) == 2\n"
    )
    return tmp_path


@pytest.mark.parametrize("likely", [None, "test_a.py::test_one", "test_a.py::test_zero"])
def test_the_first_test_that_fails_is_named_whichever_was_likely(tree, likely):
    assert seen_by(ADDS, SUITE, likely) == "test_a.py::test_one"
    assert (tree / "a.py").read_text().endswith("x + y\n")


def test_what_no_test_sees_is_said(tree):
    assert seen_by(replace(ADDS, new="y + x"), SUITE) is None


def test_a_test_that_fails_without_the_break_has_seen_nothing(tree):
    (tree / "test_a.py").write_text("def test_never():\n    assert False\n")
    with pytest.raises(ValueError, match="test_never fails without a break too"):
        seen_by(ADDS, SUITE)


def test_a_page_keeps_the_tables_of_other_kinds(tmp_path):
    page = tmp_path / "breaks.md"
    seen = {"adds": "t.py::a", "H1: a | b": NONE, "late": NOT_YET}
    rows = [
        (replace(ADDS, what=name.removeprefix("H1: "), finding=name[:2] * (name[0] == "H")), shown)
        for name, shown in seen.items()
    ]
    write(page, {"house": rows})
    write(page, {"attack": rows[:1]})
    assert seen_before(page, "house") == seen
    assert seen_before(page, "attack") == {"adds": "t.py::a"}
    assert "1 of 3 are seen" in page.read_text()


def drawn(source):
    """All mistakes that some draws plant, without white space."""
    found = (plant(source, random.Random(seed)) for seed in range(40))
    return {"".join(present(each)[0].split()) for each in found}


@pytest.mark.parametrize(
    ("source", "mistakes"),
    [
        ("a = b - 1", {"a=b+1"}),
        ("a = b if c else d", {"a=bifnotcelsed"}),
        ("go()", {"pass"}),
        ("def f():\n  if a:\n    return b", {"deff():ifnota:returnb", "deff():ifa:return"}),
    ],
)
def test_each_kind_of_mistake_is_drawn_alone(source, mistakes):
    assert drawn(source) == mistakes


@pytest.mark.parametrize("source", ["a = 1", "log.info('x')", "def f():\n  return None"])
def test_some_sources_have_no_place_for_one(source):
    assert plant(source, random.Random(0)) is None


def test_modules_with_a_test_of_their_path_are_drawn_from():
    names = [str(path) for path in modules()]
    assert "cog_adapt/server/service/slots.py" in names
    assert "cog_adapt/__main__.py" not in names

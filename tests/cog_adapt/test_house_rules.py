"""The rules of the house that no linter holds: sizes, words, a test for each module."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "cog_adapt"
SOURCES = [
    *(
        path
        for name in ("cog_adapt", "server", "bench", "examples")
        for path in sorted((ROOT / name).rglob("*.py"))
    ),
    *(path for name in ("predict.py", "train.py", "task.py") if (path := ROOT / name).exists()),
]
BLOCKS = (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.AsyncFor, ast.AsyncWith, ast.Match)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
PRIVATE_WORDS = {
    *("desk", "desks", "lane", "lanes", "clinic", "shelf", "journal", "told", "wish", "bury"),
    *("debt", "manner", "intake", "aside", "asides", "outlives", "leftovers", "surroundings"),
    *("victim", "ledger"),
}
UNTESTED = {
    "cog_adapt/__main__.py": "two lines that command/test_main.py runs",
    "cog_adapt/server/records/migrations/env.py": "alembic runs it; records/test_database.py",
    "cog_adapt/server/records/migrations/versions/first_tables.py": "records/test_database.py",
    "cog_adapt/server/records/migrations/versions/unused_columns.py": "records/test_database.py",
    "cog_adapt/server/records/migrations/versions/owners.py": "records/test_database.py",
}


RUNNER = sorted((PACKAGE / "runner").rglob("*.py"))
DOORS = ("predict.py", "train.py")
TRANSPORTS = {"cog", "coglet", "fastapi", "starlette", "uvicorn", "server"}


def name_of(path):
    return str(path.relative_to(ROOT))


def functions_in(path):
    return [each for each in ast.walk(ast.parse(path.read_text())) if isinstance(each, FUNCTIONS)]


def lines_of(node):
    """From `def` to the last line, the docstring left out."""
    documented = ast.get_docstring(node) is not None
    docstring = node.body[0].end_lineno - node.body[0].lineno + 1 if documented else 0
    return node.end_lineno - node.lineno + 1 - docstring


def nesting_of(node, depth=0):
    """How deep blocks stand in a function; `elif` is no deeper than its `if`."""
    deepest = depth
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (*FUNCTIONS, ast.ClassDef, ast.Lambda)):
            continue
        is_elif = isinstance(node, ast.If) and [child] == node.orelse and isinstance(child, ast.If)
        deeper = isinstance(child, BLOCKS) and not is_elif
        deepest = max(deepest, nesting_of(child, depth + deeper))
    return deepest


def names_in(path):
    """Every name that a source gives or uses, and its own."""
    names = {path.stem}
    for node in ast.walk(ast.parse(path.read_text())):
        found = (getattr(node, field, None) for field in ("id", "attr", "name", "arg", "asname"))
        names |= {name for name in found if isinstance(name, str)}
    return names


def words_of(name):
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)}


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_a_source_is_short_and_flat(path):
    tree = ast.parse(path.read_text())
    classes = [each for each in ast.walk(tree) if isinstance(each, ast.ClassDef)]
    assert len(path.read_text().splitlines()) <= 250
    assert [c.name for c in classes if c.end_lineno - c.lineno + 1 > 150] == []
    assert [f.name for f in functions_in(path) if lines_of(f) > 40] == []
    assert [f.name for f in functions_in(path) if nesting_of(f) > 2] == []


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_no_private_word_is_among_its_names(path):
    assert [name for name in names_in(path) if words_of(name) & PRIVATE_WORDS] == []


@pytest.mark.parametrize(
    ("source", "depth"),
    [
        ("def f():\n if a:\n  for b in c:\n   d()", 2),
        ("def f():\n if a:\n  b()\n elif c:\n  d()", 1),
        ("def f():\n try:\n  a()\n except B:\n  with c:\n   if d:\n    e()", 3),
        ("def f():\n match a:\n  case 1:\n   while b:\n    c()", 2),
        ("def f():\n if a:\n  def g():\n   if b:\n    c()", 1),
    ],
)
def test_nesting_is_counted(source, depth):
    assert nesting_of(ast.parse(source).body[0]) == depth


def test_the_words_of_a_name():
    assert words_of("_FrontDesk_told2") == {"front", "desk", "told"}


def modules():
    return [path for path in sorted(PACKAGE.rglob("*.py")) if path.name != "__init__.py"]


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_a_module_has_a_test_of_its_path(path):
    test = ROOT / "tests" / path.relative_to(ROOT).parent / f"test_{path.name}"
    assert test.exists() or UNTESTED.get(name_of(path)), f"write {name_of(test)}"


def test_what_is_named_as_untested_is_there_and_is_untested():
    for name in UNTESTED:
        path = ROOT / name
        assert path.exists()
        assert not (ROOT / "tests" / Path(name).parent / f"test_{path.name}").exists()


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


@pytest.mark.parametrize("path", RUNNER, ids=name_of)
def test_the_runner_knows_no_transport(path):
    assert TRANSPORTS.isdisjoint(imported(path))


@pytest.mark.parametrize("door", DOORS)
def test_a_door_has_at_most_eighty_lines(door):
    assert len((ROOT / door).read_text().splitlines()) <= 80


def test_the_readme_has_at_most_150_lines():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


@pytest.mark.parametrize("name", ["utils", "helpers", "common", "base", "core", "manager"])
def test_no_module_is_named_after_nothing(name):
    assert not [path for path in SOURCES if path.stem == name or path.parent.name == name]

"""The stand-in is compiled once, and skipped with a reason where it cannot be."""

import importlib.metadata
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.standin import build
from tests.standin.errors import StandInError
from tests.standin.load import load

ROOT = Path(__file__).parents[3]


@pytest.fixture
def unbuilt(monkeypatch, tmp_path):
    if "+cpu" not in torch.__version__:
        pytest.skip("this torch is no build for the CPU alone")
    monkeypatch.setattr(build, "BUILT", tmp_path / "built")
    return tmp_path / "built"


@pytest.fixture
def source(monkeypatch, tmp_path):
    path = tmp_path / "source" / "standin.cpp"
    path.parent.mkdir()
    monkeypatch.setattr(build, "SOURCES", path.parent)
    return path


def test_without_a_compiler_the_reason_is_given(unbuilt, monkeypatch):
    monkeypatch.setattr(build, "COMPILER", "no-such-compiler")
    with pytest.raises(StandInError, match=r"no-such-compiler is not on the PATH. Install a C\+\+"):
        build.library()
    assert [*unbuilt.iterdir()] == []


def test_with_torch_for_a_card_it_is_not_built(unbuilt, monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "2.13.0+cu130")
    with pytest.raises(StandInError, match=r"torch 2\.13\.0\+cu130 is no build for the CPU alone"):
        build.library()


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++ here")
def test_sources_that_do_not_compile_say_why(unbuilt, source):
    source.write_text("not C++")
    with pytest.raises(StandInError, match=r"(?s)does not compile with this torch: .*standin\.cpp"):
        build.library()
    assert [*unbuilt.iterdir()] == []


def test_it_is_compiled_once_for_each_state_of_its_sources(unbuilt, source, monkeypatch):
    compiled = []

    def compile_(torch, made):
        compiled.append(made.name)
        made.touch()

    source.write_text("one")
    monkeypatch.setattr(build, "compile_extension", compile_)
    assert build.library() == build.library()
    source.write_text("two")
    assert build.library().name == compiled[1] != compiled[0]
    assert sorted(path.name for path in unbuilt.iterdir()) == sorted(compiled)


def test_it_is_not_loaded_after_torch():
    with pytest.raises(StandInError, match="torch is imported already"):
        load()


def test_pytest_ends_well_and_says_why_where_there_is_no_compiler(tmp_path):
    """In a tree of its own, where nothing is compiled yet."""
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    program = "from tests.standin import build; build.BUILT = build.Path('built'); import pytest; "
    program += "raise SystemExit(pytest.main(['-p', 'tests.standin.plugin', '-q', 'tests']))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={"PATH": str(tmp_path), "HOME": os.environ.get("HOME", "/")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    shown = done.stdout + done.stderr
    assert "skipped, for there is no stand-in: g++ is not on the PATH" in shown, shown
    assert done.returncode == 0

"""Which files and libraries a task stands on."""

import sys

import pytest

from cog_adapt.runner.known.adaptation_key import source_digest
from cog_adapt.runner.task.code import code_behind

_TASK = """
import own_code_helper
from tests.cog_adapt.models import Letters

class Own(Letters):
    helper = own_code_helper.x
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A task's class, whose file imports a neighbour."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own_code_task.py").write_text(_TASK)
    (tmp_path / "own_code_helper.py").write_text("x = 1\n")
    import own_code_task  # type: ignore[import-not-found]

    yield tmp_path, own_code_task.Own
    for name in ("own_code_task", "own_code_helper"):
        sys.modules.pop(name)


def test_files_of_its_owner_are_told_from_libraries_and_the_package(own):
    folder, kind = own
    files, libraries = code_behind([kind])
    assert {path.name for path in files if path.parent == folder} == {
        "own_code_task.py",
        "own_code_helper.py",
    }
    assert "torch" in libraries
    assert not any("runner" in path.parts and "tests" not in path.parts for path in files)


def test_what_a_task_imports_is_a_part_of_its_source(own):
    folder, kind = own
    before = source_digest(kind())
    assert before == source_digest(kind())
    (folder / "own_code_helper.py").write_text("x = 1  # changed\n")
    assert source_digest(kind()) != before

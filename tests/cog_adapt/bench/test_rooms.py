"""Rooms, floors and arrows of a tree of a few lines, counted by hand."""

from graphlib import CycleError

import pytest

from bench.house.rooms import Count, count, document, floors_of
from bench.house.trees import Tree

FILES = {
    "cog_adapt/runner/__init__.py": "",
    "cog_adapt/runner/errors.py": "class Error(Exception): ...\n",
    "cog_adapt/runner/task/__init__.py": "",
    "cog_adapt/runner/task/task.py": "from cog_adapt.runner.errors import Error\n",
    "cog_adapt/runner/task/bounds.py": "from cog_adapt.runner.task.task import Error\n",
    "cog_adapt/runner/requests/__init__.py": "",
    "cog_adapt/runner/requests/answer.py": """
from gradient_check.modes import run


def answer():
    from cog_adapt.runner.task.task import task
    from cog_adapt.runner.task.task.bounds import Error

    return task, Error, run
""",
    "cog_adapt/lm/chat.py": "from cog_adapt.runner.requests.answer import answer\n",
    "gradient_check/__init__.py": "",
    "gradient_check/modes.py": "def run(): ...\n",
    "gradient_check/tests/test_modes.py": "from gradient_check.modes import run\n",
}


@pytest.fixture
def tree(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return Tree.read(tmp_path)


def test_a_room_is_a_folder_or_a_module_and_several_imports_are_one_arrow(tree):
    counts = count(tree)
    assert counts["the runner"] == Count(rooms=3, floors=3, arrows=2, lines=12)
    assert counts["the runner, command and lm"] == Count(rooms=4, floors=4, arrows=3, lines=13)
    assert counts["gradient_check"] == Count(rooms=1, floors=1, arrows=0, lines=1)
    assert "the server" not in counts


def test_the_table_has_a_row_for_each_package_of_each_tree(tree):
    rows = [line for line in document({"old": count(tree), "new": count(tree)}) if "| old" in line]
    assert rows[0] == "| the runner | old | 3 | 3 | 2 | 12 |"
    assert len(rows) == 3


def test_a_circle_of_rooms_is_refused():
    with pytest.raises(CycleError):
        floors_of({"a": {"b"}, "b": {"a"}})

"""The figures of a tree of a few lines, counted by hand."""

from pathlib import Path, PurePosixPath

import pytest

from bench.house.figures import document, measure
from bench.house.functions import functions_of
from bench.house.imports import circles, graph_of, lazy_imports
from bench.house.journeys import Journey, read_journey
from bench.house.measures import house_lists
from bench.house.private import private_names
from bench.house.traced import trace_adaptations
from bench.house.trees import Tree

FILES = {
    "server/routes/runs.py": """
from server.queue import Queue
from server.reading import read


class Runs:
    def create(self, request):
        order = read(request.body)
        Queue().accept(order)
        order.split()
        return self._answer(order)

    def _answer(self, order):
        return order
""",
    "server/reading.py": '''
"""Reads."""

import httpcore


def read(body, *, deep: bool = False) -> bytes:
    """Read.

    Long.
    """
    if deep:
        for each in body:
            if each and each.x or not each:
                return each
    return [each for each in body]


def _look(it):
    from server.lane import Lane

    return it._inner, httpcore._async, Lane
''',
    "server/queue.py": """
class Queue:
    def accept(self, order):
        return check(order)


def check(order):
    return order
""",
    "server/lane.py": """
import server.reading


class Lane:
    def hear(self, report):
        self.last = report
""",
    "server/text.py": "class Text:\n    def split(self):\n        pass\n",
    "tests/server/test_lane.py": "",
}


MOVED = (
    *("cog_adapt/__init__.py", "cog_adapt/command/b.py", "cog_adapt/server/a.py"),
    "cog_adapt/server/command/c.py",
    *("server/app.py", "task.py", "tests/test_task.py"),
)


def tree_of(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Tree.read(root)


@pytest.fixture
def tree(tmp_path):
    return tree_of(tmp_path / "before", FILES)


@pytest.fixture
def moved(tmp_path):
    return tree_of(tmp_path / "after", dict.fromkeys(MOVED, ""))


def test_a_function_is_counted_without_its_docstring(tree):
    read = next(f for f in functions_of(tree.of("server")) if f.name.endswith(":read"))
    assert (read.lines, read.arguments, read.nesting) == (6, 2, 3)
    assert (read.branches, read.wide) == (5, 7)
    assert (read.is_annotated, read.is_public, read.has_docstring) == (False, True, True)


def test_a_post_is_followed_from_room_to_room(tree):
    journey = read_journey(tree, "POST")
    assert journey is not None
    assert journey.stays == [
        "server/routes/runs.py",
        "server/reading.py",
        "server/queue.py",
        "server/routes/runs.py",
    ]
    assert (journey.modules, journey.crossings, len(journey.steps)) == (3, 3, 5)


def test_modules_of_one_folder_are_one_room():
    steps = [("s/a/x.py", "f"), ("s/a/y.py", "g"), ("s/z.py", "h"), ("t/z.py", "i")]
    assert Journey(steps, PurePosixPath("s")).crossings == 2


def test_a_tree_without_a_start_has_no_journey(moved):
    assert read_journey(moved, "POST") is None


def test_an_adaptation_is_followed_from_the_request_to_the_gradient_step():
    pytest.importorskip("task")
    (calls,) = trace_adaptations(Path(__file__).parents[3], times=1)
    paths = {call.path for call in calls}
    assert paths >= {"task.py", "gradient_check/phases/gradient_step.py"}
    assert "cog_adapt/runner/requests/few_shot.py" in paths
    assert not any(path.startswith("cog_adapt/server/") for path in paths)


def test_imports_are_an_edge_each_and_may_close_a_circle(tree):
    graph = graph_of(tree.of("server"))
    assert sum(map(len, graph.values())) == 4
    assert circles(graph) == ["server.lane -> server.reading -> server.lane"]
    assert lazy_imports(tree.of("server")) == ["server/reading.py:20"]


def test_private_names_of_others_are_told_with_their_places(tree):
    assert private_names(tree.of("server")) == [
        "server/reading.py:22 `httpcore._async`",
        "server/reading.py:22 `it._inner`",
    ]


def test_what_is_told_by_name(tree):
    lists = house_lists(tree)
    assert lists["names at the top of the server"] == ["lane", "queue", "reading", "routes", "text"]
    assert lists["functions nested deeper than 2"] == ["server/reading.py:read 3"]


def test_either_layout_has_the_same_areas(moved):
    areas = {str(module.path): module.area for module in moved.modules}
    assert areas == {
        "cog_adapt/__init__.py": "package",
        "cog_adapt/command/b.py": "command",
        "cog_adapt/server/a.py": "server",
        "cog_adapt/server/command/c.py": "command",
        "server/app.py": "template",
        "task.py": "template",
        "tests/test_task.py": "tests",
    }


def test_the_page_has_a_column_for_each_tree(tree, moved):
    page = document({name: measure(t, is_run=False) for name, t in (("a", tree), ("b", moved))})
    assert "| | a | b | goal |" in page
    assert "| POST, as read: crossings | 3 | – | ≤ 15 |" in page

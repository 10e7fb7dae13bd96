"""Two trees of sources compared: which rows got worse, and which trees are none."""

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

from bench.serving_servers import Served
from bench.serving_trees import FLOOR, Tree, columns, rows, verdict
from bench.serving_turns import PINNED, STREAM, Turn, schedule_of

ROOT = Path(__file__).parents[3]
CASE = "16 at a time"


def turns(milliseconds):
    return [
        {"per second": 1000 / each, "p50 ms": each, "CPU ms": 1.0, "non-2xx": 0.0}
        for each in milliseconds
    ]


def results(before, after):
    return {
        ("before, sync", CASE, PINNED): turns(before),
        ("after, sync", CASE, PINNED): turns(after),
        (FLOOR, CASE, PINNED): turns([0.5] * len(before)),
    }


def worse(before, after):
    table = rows(results(before, after), "before", "after")
    return {row["measure"] for row in table if row["worse"]}


STEADY = [1.0, 1.01, 0.99, 1.0, 1.02, 0.98]


def test_what_is_slower_by_more_than_its_spread_is_worse():
    assert worse(STEADY, [1.2 * each for each in STEADY]) == {"per second", "p50 ms"}


def test_what_is_faster_or_differs_by_less_than_its_spread_is_not_worse():
    assert worse(STEADY, [0.8 * each for each in STEADY]) == set()
    assert worse(STEADY, [1.005 * each for each in STEADY]) == set()
    assert worse([1.0, 2.0, 1.0, 2.0], [1.2, 2.4, 1.2, 2.4]) == set()


def test_changes_are_taken_within_each_round():
    table = rows(results([1.0, 2.0, 3.0], [1.1, 2.1, 3.1]), "before", "after")
    row = next(row for row in table if row["measure"] == "p50 ms")
    assert row["change"].low == pytest.approx(row["change"].high) == pytest.approx(0.05)
    assert row["worse in"] == "3 of 3"


def test_a_stream_has_one_row_and_every_cell_can_be_shown():
    streams = {
        (name, STREAM, PINNED): [{"per second": rate, "non-2xx": 0.0}] * 3
        for name, rate in (("before", 1000.0), ("after", 500.0), (FLOOR, 100.0))
    }
    table = rows(streams, "before", "after")
    shown = [show(table[0][title]) for title, show in columns("before", "after").items()]
    assert shown[:6] == ["stream", "pinned", "per second", "100", "1000", "500"]
    assert shown[6:] == ["-50.0% (-50 to -50)", "0.0%", "YES"]
    assert verdict(table, streams)["worse by more than the spread"] == "stream, pinned: per second"


def test_a_tree_is_a_name_and_a_folder_with_a_server():
    tree = Tree.of(f"after={ROOT}")
    assert (tree.name, tree.folder) == ("after", ROOT)


@pytest.mark.parametrize("text", ["after", "after=", "=.", "FastAPI=.", "a, b=.", "after=/missing"])
def test_what_is_no_tree_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError):
        Tree.of(text)


def test_each_round_has_every_turn_once_and_the_servers_of_a_case_follow_one_another():
    served = [Served(name, 1, 1) for name in ("before", "after", FLOOR)]
    given = [
        Turn(each, case, placement, dict)
        for each in served
        for case in (CASE, STREAM)
        for placement in (PINNED, "free")
    ]
    taken = list(schedule_of(given, 2))
    for number in range(3):
        keys = [turn.key for each, turn in taken if each == number]
        assert sorted(keys) == sorted(turn.key for turn in given)
        groups = [{key[1:] for key in keys[first : first + 3]} for first in range(0, 12, 3)]
        assert [len(group) for group in groups] == [1, 1, 1, 1]


@pytest.mark.parametrize("module", ["serving", "health", "recovery"])
def test_what_measures_the_server_imports_no_task_of_the_template(module):
    code = f"import sys, bench.{module}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert {*done.stdout.split()}.isdisjoint({"task", "predict", "train", "examples", "server"})

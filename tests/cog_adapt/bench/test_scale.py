"""One worker and two: what the rows say, and that their rates leave out client and front."""

import pytest

from bench.report import Report
from bench.scale import COLUMNS, as_markdown, rows
from bench.scale_client import PREDICTIONS, QUICK, Turn, adaptation
from bench.serving_client import Tally


def turn(count, client=0.0, front=0.0, refused=0):
    return Turn(Tally([5.0] * count, refused=refused, seconds=10.0), client, front)


def test_ratios_are_to_one_worker_in_the_same_round():
    found = {(PREDICTIONS, 1): [turn(100), turn(50)], (PREDICTIONS, 2): [turn(180), turn(90)]}
    one, two = rows(found, cores=4)
    assert (one["ratio"].median, two["ratio"].median) == (1.0, 1.8)
    assert (two["ratio"].low, two["ratio"].high) == (1.8, 1.8)
    assert two["p99 ms"].median == 5.0


def test_client_and_front_are_taken_out_only_where_the_cores_do_not_suffice():
    busy = turn(100, client=4.0, front=1.0)  # half a core in ten seconds
    assert busy.without_others(workers=2, cores=2) == pytest.approx(10 * 2 / 1.5)
    assert busy.without_others(workers=1, cores=2) == 10.0
    assert busy.without_others(workers=2, cores=3) == 10.0


def test_what_failed_is_counted_and_costs_are_of_each_answer():
    (row,) = rows({(PREDICTIONS, 1): [turn(10, client=0.1, front=0.2, refused=3)]}, cores=2)
    assert row["failed"] == 3
    assert row["client, CPU ms each"].median == pytest.approx(10)
    assert row["front, CPU ms each"].median == pytest.approx(20)


def test_no_adaptation_is_known_before():
    assert adaptation(1, QUICK) != adaptation(2, QUICK)


def test_the_page_has_a_row_for_each():
    found = {(PREDICTIONS, 1): [turn(100)], (PREDICTIONS, 2): [turn(150)]}
    page = as_markdown(Report("One worker and two", COLUMNS, rows(found, 2), {"rounds": 1}))
    lines = [line for line in page.splitlines() if line.startswith("| predictions")]
    assert [line.count("|") for line in lines] == [len(COLUMNS) + 1] * 2

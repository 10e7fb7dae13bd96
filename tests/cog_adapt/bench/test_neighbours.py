"""Two processes that train: which of their steps are compared. `make quick` lets two take some."""

from multiprocessing import Pipe

import pytest

from bench.neighbours import FIRST, SECOND, Process, common, rows


def test_steps_count_that_were_taken_while_both_took_some():
    ends = {"slow": [1.0, 4.0, 7.0, 10.0], "fast": [2.0, 3.0, 5.0, 6.0, 8.0, 11.0]}
    assert common(ends) == {"slow": [3.0, 3.0], "fast": [1.0, 2.0]}


def test_ratios_are_those_of_each_round():
    pair = {FIRST: Process(Pipe()[0], 2), SECOND: Process(Pipe()[0], 1)}
    found = {
        FIRST: [{FIRST: [1.0, 1.0]}, {FIRST: [2.0]}, {FIRST: [4.0]}],
        SECOND: [{SECOND: [1.0]}] * 3,
        "both": [
            {FIRST: [1.5, 1.5, 9.0], SECOND: [2.0]},
            {FIRST: [4.0], SECOND: [3.0]},
            {FIRST: [5.0], SECOND: [1.0]},
        ],
    }
    first, second = rows(pair, found)
    assert first["beside / alone"].median == pytest.approx(1.5)
    assert (first["threads"], first["steps beside"]) == (2, 5)
    assert second["beside / alone"].median == pytest.approx(2.0)

"""Ratios are made between steps of one turn."""

import pytest

from bench.adaptation_steps import ALL, KEPT, WITHOUT, rows


def test_ratios_are_those_of_each_turn():
    times = {ALL: [8.0, 80.0, 8.0], WITHOUT: [4.0, 40.0, 4.0], KEPT: [2.0, 20.0, 1.0]}
    table = {row["contestant"]: row for row in rows(times, dict.fromkeys(times, 7.0))}
    kept = table[KEPT]
    assert kept["all blocks / this"].median == pytest.approx(4)
    assert kept["without / this"].median == pytest.approx(2)
    assert kept["step, ms"].median == pytest.approx(2)
    assert table[WITHOUT]["all blocks / this"].median == pytest.approx(2)

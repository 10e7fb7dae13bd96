"""The plot has one point for each contestant and set."""

import pytest

from bench.quality.plot import plot, points
from bench.quality.scores import Scores
from bench.sets.rows import Row

ROWS = [Row("tickets", 4), Row("tickets", 8), Row("spam", 8)]
LATE = {0: Scores(0.1, 1, 0, 1.0)}
RESULTS = {
    "tickets:4": {"lora": {n: Scores(0.6 + n / 5, 1, 0, 4.0 + n) for n in range(2)}},
    "tickets:8": {"lora": {0: Scores(0.9, 1, 0, 9.5)}, "late": LATE},
    "spam:8": {"centroid": {0: Scores(0.5, 1, 0, 0.1)}, "late": LATE},
}


def test_every_row_of_a_set_weighs_the_same():
    assert points(RESULTS, ROWS, "tickets")["lora"] == pytest.approx((7.0, 0.8))


def test_a_contestant_that_lacks_a_row_of_a_set_has_no_point_there():
    assert set(points(RESULTS, ROWS, "tickets")) == {"lora"}
    assert set(points(RESULTS, ROWS, "spam")) == {"centroid", "late"}


def test_the_plot_is_a_png(tmp_path):
    path = tmp_path / "results" / "quality.png"
    plot(RESULTS, ROWS, path)
    assert path.read_bytes().startswith(b"\x89PNG")

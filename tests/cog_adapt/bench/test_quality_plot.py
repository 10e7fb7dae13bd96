"""The plot has one point for each contestant and set."""

from bench.quality_plot import _points, plot
from bench.quality_scores import Scores
from bench.sets.rows import Row

ROWS = [Row("tickets", 4), Row("tickets", 8), Row("spam", 8)]
RESULTS = {
    "tickets:4": {"lora": {0: Scores(0.6, 1, 0, 4.0), 1: Scores(0.8, 1, 0, 6.0)}},
    "tickets:8": {"lora": {0: Scores(0.9, 1, 0, 9.0), 1: Scores(0.9, 1, 0, 8.0)}},
    "spam:8": {"centroid": {0: Scores(0.5, 1, 0, 0.1)}},
}


def test_a_point_is_the_mean_accuracy_at_the_median_of_the_seconds():
    points = _points(RESULTS, ROWS, "tickets")
    assert points == {"lora": (7.0, 0.8)}
    assert set(_points(RESULTS, ROWS, "spam")) == {"centroid"}


def test_the_plot_is_a_png(tmp_path):
    path = tmp_path / "results" / "quality.png"
    plot(RESULTS, ROWS, path)
    assert path.read_bytes().startswith(b"\x89PNG")

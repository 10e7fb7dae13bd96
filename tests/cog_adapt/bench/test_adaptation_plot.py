"""The plot of a report of adaptations has a point for each contestant."""

import json
import sys

import pytest
from matplotlib.axes import Axes

from bench.adaptation_plot import PLAIN, joined, main, whiskers

SPREAD = {"median": 2.0, "mean": 2.2, "lower_quartile": 1.5, "upper_quartile": 2.1}


def test_whiskers_are_of_the_quartiles_and_never_negative():
    assert whiskers(SPREAD, 2.0) == [[pytest.approx(0.5)], [pytest.approx(0.1)]]
    assert whiskers(SPREAD, SPREAD["mean"])[1] == [0.0]


def test_what_another_run_has_more_is_scaled_by_the_plain_loop():
    first = [{"contestant": PLAIN, "adapt, s": {"median": 10.0}}]
    other = [
        {"contestant": PLAIN, "adapt, s": {"median": 20.0}},
        {"contestant": "SetFit", "adapt, s": {"median": 30.0}, "adapt / plain": {"median": 1.6}},
    ]
    names = {row["contestant"]: row["adapt, s"]["median"] for row in joined([first, other])}
    assert names == {PLAIN: 10.0, "SetFit (another run)": 16.0}


def test_a_report_is_drawn_beside_itself_with_each_contestant(tmp_path, monkeypatch):
    labels = []
    draw = Axes.errorbar

    def noting(axis, *at, **how):
        labels.append(how["label"])
        return draw(axis, *at, **how)

    monkeypatch.setattr(Axes, "errorbar", noting)
    report = tmp_path / "adaptation.json"
    rows = [{"contestant": name, "adapt, s": SPREAD, "accuracy": SPREAD} for name in ("a", "b")]
    report.write_text(json.dumps({"rows": rows}), "utf-8")
    monkeypatch.setattr(sys, "argv", ["adaptation_plot", str(report)])
    main()
    assert labels == ["a", "b"]
    assert report.with_suffix(".png").read_bytes().startswith(b"\x89PNG")

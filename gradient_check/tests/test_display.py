"""A report can be shown on a terminal."""

import io

import pytest
from rich.console import Console

from gradient_check import display
from gradient_check.display import bar_of, end_of_name, render
from gradient_check.findings.report import GradientReport
from gradient_check.tests.test_report import CUT, DEAD, report


def shown(*findings) -> str:
    out = io.StringIO()
    console = Console(file=out, width=160, no_color=True)
    console.print(render(report(*findings)))
    return out.getvalue()


def test_checks_findings_and_norms_are_shown() -> None:
    text = shown(CUT, DEAD)
    for part in ("FAILED", "forward", "skipped", "graph-cut", "block (B), f:1", "WARN dead", "█"):
        assert part in text


def test_long_layer_names_keep_their_end() -> None:
    assert end_of_name("encoder.layer.0.query") == "encoder.layer.0.query"
    name = "encoder.encoder.layer.11.attention.self.query"
    assert end_of_name(name) == "…" + name[-33:]


def test_the_bar_grows_and_heats_with_the_norm_on_a_logarithmic_scale() -> None:
    low, middle, high = (bar_of(norm, -2.0, 0.0) for norm in (0.01, 0.1, 1.0))
    assert [len(bar.plain) for bar in (low, middle, high)] == [1, 12, 24]
    assert low.style == "rgb(0,80,255)"
    assert high.style == "rgb(255,80,0)"


@pytest.mark.parametrize(
    ("norm", "text"), [(0.0, "none"), (float("inf"), "not finite"), (float("nan"), "not finite")]
)
def test_a_norm_without_a_bar_is_said_in_words(norm: float, text: str) -> None:
    assert bar_of(norm, -1.0, 0.0).plain == text


def test_a_name_that_just_fits_is_shown_whole() -> None:
    assert end_of_name("n" * 34) == "n" * 34
    assert len(end_of_name("n" * 35)) == 34


def many(count: int) -> str:
    norms = {f"layer{n}.weight": 10.0**-n for n in range(count)}
    out = io.StringIO()
    console = Console(file=out, width=160, no_color=True)
    console.print(render(GradientReport((), (), norms, "cpu/fp32", 0.1)))
    return out.getvalue()


def test_of_many_layers_the_first_are_shown_and_the_others_counted(monkeypatch) -> None:
    monkeypatch.setattr(display, "MOST_LAYERS", 3)
    assert "more" not in many(3)
    assert "and 2 more" in many(5)
    assert "layer2" in many(5)
    assert "layer3" not in many(5)


def test_the_shortest_bar_still_shows_and_the_largest_norm_fills_its_column() -> None:
    bars = [line.count("█") for line in many(3).splitlines() if "layer" in line and "█" in line]
    assert bars == [24, 14, 5]


def test_without_norms_there_is_no_table_of_layers() -> None:
    assert "layer" not in many(0)
    assert "passed" in many(0)


def test_times_are_in_milliseconds_and_numbers_short() -> None:
    assert "100" in shown()
    assert "loss 1" in shown()

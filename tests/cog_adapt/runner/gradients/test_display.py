"""A report can be shown on a terminal."""

import io

from rich.console import Console

from cog_adapt.runner.gradients.display import _tail, by_layer, render
from tests.cog_adapt.runner.gradients.test_report import CUT, DEAD, report


def shown(*findings) -> str:
    console = Console(file=io.StringIO(), width=160, no_color=True)
    console.print(render(report(*findings)))
    return console.file.getvalue()


def test_checks_findings_and_norms_are_shown() -> None:
    text = shown(CUT, DEAD)
    for part in ("FAILED", "forward", "skipped", "graph-cut", "block (B), f:1", "WARN dead", "█"):
        assert part in text


def test_the_parameters_of_a_layer_are_taken_together() -> None:
    assert by_layer({"a.weight": 3.0, "a.bias": 4.0, "w": 1.0}) == {"a": 5.0, "(root)": 1.0}


def test_long_layer_names_keep_their_end() -> None:
    assert _tail("encoder.layer.0.query") == "encoder.layer.0.query"
    name = "encoder.encoder.layer.11.attention.self.query"
    assert _tail(name) == "…" + name[-33:]

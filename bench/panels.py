"""Draws the dashboard's panels from Prometheus' answers; Grafana could not be had here.

OPERATORS=1 OPERATORS_KEPT=FOLDER pytest tests/cog_adapt/deploy/test_stack.py
python -m bench.panels FOLDER/panels.json docs/images/dashboard.png
"""

import json
import math
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

_COLUMNS = 4


def legend_of(series: dict[str, Any]) -> str:
    """Return a series' name as Grafana makes it from the panel's pattern."""
    labels = series["metric"]
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), series["legend"])


def draw(axes: Axes, panel: dict[str, Any]) -> None:
    """Draw one panel."""
    axes.set_title(f"{panel['title']} ({panel['unit']})", fontsize=8)
    axes.tick_params(labelsize=6)
    axes.set_ylim(bottom=0, auto=True)
    for series in panel["series"]:
        points = [(float(at), float(value)) for at, value in series["values"]]
        finite = [(at, value) for at, value in points if math.isfinite(value)]
        start = points[0][0]
        axes.plot(
            [at - start for at, _ in finite],
            [value for _, value in finite],
            label=legend_of(series)[:32],
        )
    if panel["series"]:
        axes.legend(fontsize=5, loc="upper left")


def draw_all(found: Sequence[dict[str, Any]], image: Path) -> None:
    """Draw all panels on one page."""
    rows = -(-len(found) // _COLUMNS)
    figure = Figure(figsize=(4 * _COLUMNS, 2.4 * rows), layout="constrained")
    every = figure.subplots(rows, _COLUMNS).flat
    for axes, panel in zip(every, found, strict=False):
        draw(axes, panel)
    for axes in [*figure.axes][len(found) :]:
        axes.set_axis_off()
    figure.savefig(image, dpi=80)


if __name__ == "__main__":
    draw_all(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))

"""A picture for each set: mean accuracy against seconds of adaptation, one point a contestant."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.quality_scores import BySplit, Scores
from bench.sets.rows import Row

_COLUMNS = 3
_WIDTH, _HEIGHT = 4.0, 3.2  # inches of one set


def plot(results: Mapping[str, Mapping[str, BySplit]], rows: Sequence[Row], path: Path) -> None:
    """Write a PNG; every row of a set and every split weigh the same."""
    sets = list(dict.fromkeys(row.set_name for row in rows))
    names = list(dict.fromkeys(name for scores in results.values() for name in scores))
    colors = {name: f"C{number}" for number, name in enumerate(names)}
    lines = -(-len(sets) // _COLUMNS)
    figure = Figure(figsize=(_WIDTH * _COLUMNS, _HEIGHT * lines), layout="constrained")
    axes = figure.subplots(lines, _COLUMNS, squeeze=False).flat
    for axis, set_name in zip(axes, sets, strict=False):
        _draw_set(axis, set_name, _points(results, rows, set_name), colors)
    for axis in list(axes)[len(sets) :]:
        axis.set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def _points(
    results: Mapping[str, Mapping[str, BySplit]], rows: Sequence[Row], set_name: str
) -> dict[str, tuple[float, float]]:
    """Return median seconds and mean accuracy of each contestant on a set."""
    scores: dict[str, list[Scores]] = {}
    for row in rows:
        for name, splits in results[row.name].items() if row.set_name == set_name else ():
            scores.setdefault(name, []).extend(splits.values())
    return {
        name: (
            statistics.median(s.seconds for s in found),
            statistics.fmean(s.accuracy for s in found),
        )
        for name, found in scores.items()
    }


def _draw_set(
    axis: Axes,
    set_name: str,
    points: Mapping[str, tuple[float, float]],
    colors: Mapping[str, str],
) -> None:
    for name, (seconds, accuracy) in points.items():
        axis.plot(seconds, accuracy, "o", color=colors[name])
        axis.annotate(name, (seconds, accuracy), xytext=(4, 4), textcoords="offset points")
    axis.set(title=set_name, xscale="log", xlabel="seconds to adapt", ylabel="accuracy")
    axis.margins(0.2)
    axis.grid(visible=True, alpha=0.3)

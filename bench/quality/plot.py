"""A picture for each set: mean accuracy against seconds of adaptation, one point a contestant.

A contestant is left out of a set if it has not run on each of the set's rows: its mean would be
of other rows than the others'.
"""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bench.quality.scores import BySplit
from bench.sets.rows import Row

_COLUMNS = 3
_WIDTH, _HEIGHT = 4.0, 3.2  # inches of one set
_MARKERS = "osD^vPX*"


def plot(results: Mapping[str, Mapping[str, BySplit]], rows: Sequence[Row], path: Path) -> None:
    """Write a PNG; every row of a set has the same weight."""
    sets = list(dict.fromkeys(row.set_name for row in rows))
    names = sorted({name for scores in results.values() for name in scores})
    lines = -(-len(sets) // _COLUMNS)
    figure = Figure(figsize=(_WIDTH * _COLUMNS, _HEIGHT * lines + 0.4), layout="constrained")
    shown: dict[str, Line2D] = {}
    for number, set_name in enumerate(sets, 1):
        axis = figure.add_subplot(lines, _COLUMNS, number)
        for name, (seconds, accuracy) in points(results, rows, set_name).items():
            look = names.index(name)
            marker = _MARKERS[look % len(_MARKERS)]
            shown[name] = axis.plot(seconds, accuracy, marker, color=f"C{look}", alpha=0.8)[0]
        axis.set(title=set_name, xscale="log", xlabel="seconds to adapt", ylabel="accuracy")
        axis.margins(0.2)
        axis.grid(visible=True, alpha=0.3)
    figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=len(names))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def points(
    results: Mapping[str, Mapping[str, BySplit]], rows: Sequence[Row], set_name: str
) -> dict[str, tuple[float, float]]:
    """Return mean seconds and accuracy of each contestant over a set's rows.

    For each row, the seconds are the median of the splits, the accuracy is their mean.
    """
    of_set = [results[row.name] for row in rows if row.set_name == set_name]
    return {
        name: (
            statistics.fmean(_seconds(scores[name]) for scores in of_set),
            statistics.fmean(_accuracy(scores[name]) for scores in of_set),
        )
        for name in of_set[0]
        if all(name in scores for scores in of_set)
    }


def _seconds(splits: BySplit) -> float:
    return statistics.median(scores.seconds for scores in splits.values())


def _accuracy(splits: BySplit) -> float:
    return statistics.fmean(scores.accuracy for scores in splits.values())

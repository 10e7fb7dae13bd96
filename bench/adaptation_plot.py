"""A picture of a report of `bench.adaptation`: accuracy against seconds to adapt, one point each.

python -m bench.adaptation_plot docs/results/adaptation.json
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

_SECONDS, _ACCURACY = "adapt, s", "accuracy"


def plot(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write a PNG: of each contestant the median time, the mean accuracy, and their quartiles."""
    figure = Figure(figsize=(7.0, 4.5), layout="constrained")
    axis = figure.add_subplot()
    for row in rows:
        seconds, accuracy = row[_SECONDS], row[_ACCURACY]
        axis.errorbar(
            seconds["median"],
            accuracy["mean"],
            xerr=_whiskers(seconds, seconds["median"]),
            yerr=_whiskers(accuracy, accuracy["mean"]),
            fmt="o",
            label=row["contestant"],
            alpha=0.8,
        )
    axis.set(xscale="log", xlabel="seconds to adapt", ylabel="accuracy")
    axis.grid(visible=True, alpha=0.3)
    axis.legend(fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def _whiskers(spread: Mapping[str, float], middle: float) -> list[list[float]]:
    """Return how far the quartiles lie below and above; a mean may lie outside of them."""
    below, above = middle - spread["lower_quartile"], spread["upper_quartile"] - middle
    return [[max(0.0, below)], [max(0.0, above)]]


def main() -> None:
    """Draw a report that is there, beside it."""
    report = Path(sys.argv[1])
    plot(json.loads(report.read_text("utf-8"))["rows"], report.with_suffix(".png"))


if __name__ == "__main__":
    main()

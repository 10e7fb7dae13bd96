"""A picture of a report of `bench.adaptation`: accuracy against seconds to adapt, one point each.

python -m bench.adaptation_plot docs/results/adaptation.json docs/results/adaptation-setfit.json

From further reports of other runs, only the contestants that the first report lacks are drawn;
their seconds are those of the first report's plain loop, multiplied by the ratio of pairs to the
plain loop in their own run.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

Row = Mapping[str, Any]
PLAIN = "plain loop + peft"
_NAME, _SECONDS, _RATIO, _ACCURACY = "contestant", "adapt, s", "adapt / plain", "accuracy"


def plot(rows: Sequence[Row], path: Path) -> None:
    """Write a PNG: for each contestant the median time, the mean accuracy, and their quartiles."""
    figure = Figure(figsize=(7.0, 4.5), layout="constrained")
    axis = figure.add_subplot()
    for row in rows:
        seconds, accuracy = row[_SECONDS], row[_ACCURACY]
        axis.errorbar(
            seconds["median"],
            accuracy["mean"],
            xerr=whiskers(seconds, seconds["median"]),
            yerr=whiskers(accuracy, accuracy["mean"]),
            fmt="o",
            label=row[_NAME],
            alpha=0.8,
        )
    axis.set(xscale="log", xlabel="seconds to adapt", ylabel="accuracy")
    axis.grid(visible=True, alpha=0.3)
    axis.legend(fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def whiskers(spread: Mapping[str, float], middle: float) -> list[list[float]]:
    """Return the distances to the quartiles below and above; a mean may lie outside them."""
    below, above = middle - spread["lower_quartile"], spread["upper_quartile"] - middle
    return [[max(0.0, below)], [max(0.0, above)]]


def joined(reports: Sequence[Sequence[Row]]) -> list[Row]:
    """Return the rows of the first report, and from the others those of its missing contestants."""
    rows = list(reports[0])
    for others in reports[1:]:
        plain = next(float(row[_SECONDS]["median"]) for row in rows if row[_NAME] == PLAIN)
        known = {row[_NAME] for row in rows}
        rows += [_scaled(row, plain) for row in others if row[_NAME] not in known]
    return rows


def _scaled(row: Row, plain: float) -> Row:
    seconds = {name: value * plain for name, value in row[_RATIO].items()}
    return {**row, _NAME: f"{row[_NAME]} (another run)", _SECONDS: seconds}


def main() -> None:
    """Draw existing reports beside the first."""
    paths = [Path(each) for each in sys.argv[1:]]
    reports = [json.loads(path.read_text("utf-8"))["rows"] for path in paths]
    plot(joined(reports), paths[0].with_suffix(".png"))


if __name__ == "__main__":
    main()

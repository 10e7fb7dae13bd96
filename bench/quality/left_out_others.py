"""What the closed form without names is worth on pictures and tables that took no part.

    make kinds
    python -m bench.quality left-out-others --splits 20

The mixture of heads is chosen by the log loss on one half of the sets, on splits of its own, and
judged on both halves; the held half has taken no part. The runner's own adaptation (`own`, `auto`)
is measured on the first splits. Features are computed once a set; scores are kept in
`.data/left-out`, so an interrupted run continues.
"""

import argparse
import itertools
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench.quality.cases import KINDS, is_like
from bench.quality.features import FOLDER
from bench.quality.goals import LEAST_DIFFERENCE, MOST_ABOVE, MOST_CALIBRATION_ERROR
from bench.quality.halves import OtherMeasurement, OtherSets, rows_of
from bench.quality.means import Lines, mean
from bench.quality.nameless import AS_IS, MIXTURES, PRIOR, SINGLE
from bench.quality.numbers import SIZES
from bench.quality.pipeline import Pipeline
from bench.quality.records import Records, Results
from bench.quality.scores import BySplit, are_below, better_of, differences
from bench.report import Columns, Report
from bench.sets import others
from bench.sets.rows import Row

QUICK_SETS = ("wine", "tumours")
RECORDS = FOLDER / "others.jsonl"
_GOAL = ("logistic", "centroids")  # the better of these is to be reached
_NUMBER_GOAL = ("ridge",)
_MEAN_CALIBRATION_ERROR = 0.06
_FEWEST_TESTED, _FEWEST_EXAMPLES = 200, 4  # with fewer, a calibration error is not judged

COLUMNS: Columns = {
    "part": str,
    "contestant": str,
    "count": str,
    "accuracy or R²": "{:.3f}".format,
    "log loss": "{:.3f}".format,
    "calibration error": "{:.3f}".format,
    "rows below the better": str,
    "log loss above the prior's": "{:.1%}".format,
}


def report(sets: OtherSets, losses: Mapping[str, float], chosen: str, found: Results) -> Report:
    """Sum up kinds of sets, halves and kinds of rows."""
    lines = [line for title, part in _parts(sets) for line in _of_part(title, part, found)]
    settings = {
        "splits that judge": sets.judging,
        "splits that choose": sets.choosing,
        "splits of the runner itself": sets.running,
        "held": ", ".join(name for name in sets.names if name in others.HELD),
        "chosen on the other half": chosen,
        **{f"log loss of {name} there": round(loss, 4) for name, loss in losses.items()},
        **{f"{name} sha256": others.digest(name) for name in sets.names},
    }
    return Report("Heads without names on sets that were left out", COLUMNS, lines, settings)


def _parts(sets: OtherSets) -> Iterator[tuple[str, list[Row]]]:
    """Yield the parts to average: each kind's halves, by kinds of rows and together."""
    kinds = (others.PICTURES, others.TABLES, others.NUMBERS)
    for kind, is_held in itertools.product(kinds, (False, True)):
        title = f"{kind}, {'held' if is_held else 'choosing'}"
        names = [n for n in others.names_of(kind) if n in sets.names]
        rows = [r for n in names if (n in others.HELD) is is_held for r in rows_of(n)]
        for like in _likes(kind):
            yield f"{title}{like.name}", [row for row in rows if is_like(row, like)]
        yield f"{title}, all", rows


def _likes(kind: str) -> Sequence[Row]:
    return [Row("", size) for size in SIZES] if kind == others.NUMBERS else KINDS


def _of_part(title: str, rows: Sequence[Row], found: Results) -> Iterator[dict[str, object]]:
    names = [row.name for row in rows if row.name in found]
    contestants = [*found[names[0]]] if names else []
    return _LINES.of(title, names, contestants, found)


def is_below(by_name: Mapping[str, BySplit], contestant: str) -> bool:
    """Return whether a row is below the better of the reference, by .015 and two errors."""
    best = better_of(by_name, _GOAL if PRIOR in by_name else _NUMBER_GOAL)
    found = differences(by_name[contestant], by_name[best]) if best else []
    return are_below(found, LEAST_DIFFERENCE)


_LINES = Lines(
    ("part", "accuracy or R²", "rows below the better", "log loss above the prior's"),
    PRIOR,
    is_below,
)


def goals_of(sets: OtherSets, found: Results, contestant: str) -> dict[str, str]:
    """Judge a contestant's goals on the held sets of labels, of each kind."""
    return {
        f"{contestant}, {kind}: {goal}": verdict
        for kind in (others.PICTURES, others.TABLES)
        for goal, verdict in _goals(sets, found, contestant, kind)
    }


def _goals(
    sets: OtherSets, found: Results, contestant: str, kind: str
) -> Iterator[tuple[str, str]]:
    held = [n for n in others.names_of(kind) if n in sets.names and n in others.HELD]
    rows = [row for name in held for row in rows_of(name) if row.name in found]
    names = [row.name for row in rows]
    if not names:
        return
    own = mean("accuracy", names, contestant, found)
    best = max(mean("accuracy", names, single, found) for single in SINGLE)
    yield "mean above each single", _said(own >= best, f"{own:.3f}, {best:.3f}")
    below = [name for name in names if is_below(found[name], contestant)]
    yield "no row below the better", _said(not below, ", ".join(below) or "none")
    worse = statistics.fmean(a for n in names for a in _LINES.above_prior(found[n], contestant))
    yield "log loss above the prior's", _said(worse <= MOST_ABOVE, f"{worse:.1%}")
    tested = [row.name for row in rows if _is_judged(row)]
    errors = {name: mean("calibration_error", [name], contestant, found) for name in tested}
    average, most = statistics.fmean(errors.values()), max(errors, key=errors.__getitem__)
    is_met = average <= _MEAN_CALIBRATION_ERROR and errors[most] <= MOST_CALIBRATION_ERROR
    yield "calibration error", _said(is_met, f"mean {average:.3f}, {errors[most]:.3f} in {most}")


def _is_judged(row: Row) -> bool:
    texts = others.load(row.set_name)
    tested = texts.test_per_label * len(texts.labels)
    return tested >= _FEWEST_TESTED and row.fewest >= _FEWEST_EXAMPLES


def _said(is_met: bool, value: str) -> str:
    return f"{value} {'met' if is_met else 'MISSED'}"


def run(chosen: argparse.Namespace, path: Path) -> Sequence[Report]:
    """Choose and judge."""
    names = QUICK_SETS if chosen.quick else tuple(others.SOURCES)
    counts = (2, 1, 1) if chosen.quick else (chosen.splits, chosen.choosing, chosen.running)
    sets = OtherSets(names, *counts)
    measurement = OtherMeasurement(sets, Records(path))
    losses = measurement.losses()
    best = min(MIXTURES, key=losses.__getitem__)
    judged, ran = measurement.judged(best), measurement.run()
    found = {row: {**by_name, **ran.get(row, {})} for row, by_name in judged.items()}
    goals = goals_of(sets, found, AS_IS) | goals_of(sets, found, best)
    made = report(sets, losses, best, found)
    return [Report(made.title, made.columns, made.rows, {**made.settings, **goals})]


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--choosing", type=int, default=3, help="splits that choose (3)")
    parser.add_argument("--running", type=int, default=1, help="splits of the runner itself (1)")


PIPELINE = Pipeline(__doc__, 20, RECORDS, _options, run)

"""What the closed form is worth on groups of sets that took no part in choosing it.

    python -m bench.quality_left_out --splits 20

For each group of sets, the mixture of heads is chosen by the log loss on all others, and judged on
the group, beside what needs no choice. Splits that choose are of other seeds than those that judge.
Features are computed once a set; scores are kept in `.data/left-out`, so a run that was cut off
goes on.
"""

import argparse
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.left_out.cases import KINDS
from bench.left_out.choice import CHOSEN, Found, Measurement, Sets, group_of
from bench.left_out.contestants import BEFORE, FROZEN
from bench.left_out.features import FOLDER
from bench.quality_goals import LEAST_DIFFERENCE
from bench.quality_records import Records
from bench.quality_scores import Interval, above, better_of, differences
from bench.report import Columns, Report, arguments
from bench.sets import unseen
from bench.sets.rows import Row
from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.devices.device import choose_precision

SPLITS, CHOOSING = 20, 3
QUICK_SETS = ("urgency", "phishing")
RECORDS = FOLDER / "records.jsonl"
_SINGLE = ("centroids without names", "centroids", "logistic")

COLUMNS: Columns = {
    "rows": str,
    "contestant": str,
    "count": str,
    "accuracy": "{:.3f}".format,
    "log loss": "{:.3f}".format,
    "calibration error": "{:.3f}".format,
    "rows below the best single": str,
    "log loss above zero-shot's": "{:.1%}".format,
}


def report(sets: Sets, choices: dict[str, str], found: Found) -> Report:
    """Sum up kinds of rows, groups of sets and all rows."""
    rows = [row for row in sets.rows if row.name in found]
    more = [row for row in rows if row.per_label > 1]
    parts = {kind.name[1:]: [r for r in rows if _is_of(r, kind)] for kind in KINDS}
    parts |= {group: [r for r in more if group_of(r) == group] for group in sets.groups}
    parts |= {"two labels": [r for r in more if len(unseen.load(r.set_name).labels) == 2]}
    parts |= {"all with 4 examples a label or more": more}
    lines = [line for title, part in parts.items() for line in _lines(title, part, found)]
    settings = {
        "splits that judge": sets.judging,
        "splits that choose": sets.choosing,
        **{f"chosen without {group}": name for group, name in choices.items()},
        **{f"{name} sha256": unseen.load(name).digest for name in sets.names},
    }
    return Report("Closed forms on groups of sets that were left out", COLUMNS, lines, settings)


def _is_of(row: Row, kind: Row) -> bool:
    return (row.per_label, row.noise, row.rare) == (kind.per_label, kind.noise, kind.rare)


def _lines(title: str, rows: Sequence[Row], found: Found) -> Iterator[dict[str, object]]:
    names = [row.name for row in rows]
    for contestant in (*FROZEN, BEFORE, CHOSEN) if names else ():
        worse = [a for n in names for a in above(found[n][contestant], found[n]["zero-shot"])]
        yield {
            "rows": title,
            "contestant": contestant,
            "count": len(names),
            "accuracy": _mean("accuracy", names, contestant, found),
            "log loss": _mean("log_loss", names, contestant, found),
            "calibration error": _mean("calibration_error", names, contestant, found),
            "rows below the best single": sum(_is_below(found, n, contestant) for n in names),
            "log loss above zero-shot's": statistics.fmean(worse),
        }


def _mean(field: str, names: Sequence[str], contestant: str, found: Found) -> float:
    """Return the mean over rows of the mean over splits."""
    each = (found[name][contestant].values() for name in names)
    return statistics.fmean(statistics.fmean(getattr(s, field) for s in by) for by in each)


def _is_below(found: Found, name: str, contestant: str) -> bool:
    """Return whether a row is below the best single method by more than .015 and two errors."""
    best = better_of(found[name], _SINGLE)
    if best is None or contestant == best:
        return False
    interval = Interval.of(differences(found[name][contestant], found[name][best]))
    return interval.mean < LEAST_DIFFERENCE - (interval.half_width or 0.0)


def main() -> None:
    """Choose and judge; go on where an earlier run was cut off."""
    chosen = arguments(main.__doc__, _options)
    names = QUICK_SETS if chosen.quick else unseen.NAMES
    sets = Sets(names, 2, 1) if chosen.quick else Sets(names, chosen.splits, chosen.choosing)
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "quick.jsonl" if chosen.quick else chosen.records
        measurement = Measurement(sets, Records(path))
        choices = measurement.choices()
        found = measurement.judged(choices)
    precision = choose_precision(RunnerSettings.from_environment())
    report(sets, choices, found).publish(precision, chosen.output)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--splits", type=int, default=SPLITS, help=f"that judge ({SPLITS})")
    parser.add_argument("--choosing", type=int, default=CHOOSING, help="splits that choose")
    parser.add_argument("--records", type=Path, default=RECORDS, help="results, one a line")


if __name__ == "__main__":
    main()

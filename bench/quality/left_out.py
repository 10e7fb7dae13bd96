"""What the closed form is worth on groups of sets that took no part in choosing it.

    python -m bench.quality left-out --splits 20

For each group of sets, the mixture of heads is chosen by the log loss on all others, and judged on
the group, beside contestants without a choice. Splits that choose have other seeds than those that
judge. Features are computed once a set; scores are stored in `.data/left-out`, so a cut-off run
continues.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.quality.cases import (
    FIRST_TO_CHOOSE,
    KINDS,
    Case,
    cases,
    group_of,
    is_like,
    rows_of,
)
from bench.quality.closed_forms import BEFORE, CONTESTANTS, FROZEN, MIXTURES, answers
from bench.quality.features import FOLDER, FeatureStore
from bench.quality.goals import LEAST_DIFFERENCE
from bench.quality.means import Lines, mean
from bench.quality.pipeline import Pipeline
from bench.quality.records import Records, Results, measured
from bench.quality.scores import BySplit, Interval, better_of, differences
from bench.report import Columns, Report
from bench.sets import unseen
from bench.sets.rows import Row

CHOSEN = "closed form"
QUICK_SETS = ("urgency", "phishing")
RECORDS = FOLDER / "records.jsonl"
_SINGLE = ("centroids without names", "centroids", "logistic")
_SHOWN = (*FROZEN, BEFORE, CHOSEN)

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


@dataclass(frozen=True)
class Sets:
    """The names of the sets to measure, and the numbers of splits that judge and choose."""

    names: Sequence[str]
    judging: int
    choosing: int

    @property
    def rows(self) -> list[Row]:
        """All rows of the sets."""
        return rows_of(self.names)

    @property
    def groups(self) -> list[str]:
        """The groups of the sets."""
        return sorted({group_of(row) for row in self.rows})


class Measurement:
    """Runs contestants on splits; splits with a record are not run again."""

    def __init__(self, sets: Sets, records: Records) -> None:
        self._sets, self._records, self._store = sets, records, FeatureStore()

    def choices(self) -> dict[str, str]:
        """Return, for each group, the mixture with the least mean log loss on all others.

        Rows with one example a label take no part: `auto` answers them by gradients.
        """
        rows = [row for row in self._sets.rows if row.per_label > 1]
        seeds = range(FIRST_TO_CHOOSE, FIRST_TO_CHOOSE + self._sets.choosing)
        found = self._measured(rows, seeds, dict.fromkeys(self._sets.groups, tuple(MIXTURES)))
        return {group: _best(rows, found, group) for group in self._sets.groups}

    def judged(self, choices: Mapping[str, str]) -> Results:
        """Return the scores of the judging splits, by the mixtures chosen on the other groups."""
        wanted = {group: (*FROZEN, BEFORE, name) for group, name in choices.items()}
        found = self._measured(self._sets.rows, range(self._sets.judging), wanted)
        return {
            row.name: {
                **{name: found[row.name][name] for name in (*FROZEN, BEFORE)},
                CHOSEN: found[row.name][choices[group_of(row)]],
            }
            for row in self._sets.rows
            if row.name in found
        }

    def _measured(
        self, rows: Sequence[Row], seeds: Sequence[int], wanted: Mapping[str, Sequence[str]]
    ) -> Results:
        def of_group(case: Case) -> Sequence[str]:
            return wanted[group_of(case.row)]

        drawn = cases(self._store, unseen.load, rows, seeds)
        return measured(answers(drawn, of_group, CONTESTANTS), self._records)


def _best(rows: Sequence[Row], found: Results, group: str) -> str:
    others = [row.name for row in rows if group_of(row) != group and row.name in found]
    return min(MIXTURES, key=lambda name: mean("log_loss", others, name, found))


def report(sets: Sets, choices: dict[str, str], found: Results) -> Report:
    """Sum up kinds of rows, groups of sets and all rows."""
    rows = [row for row in sets.rows if row.name in found]
    more = [row for row in rows if row.per_label > 1]
    parts = {kind.name[1:]: [r for r in rows if is_like(r, kind)] for kind in KINDS}
    parts |= {group: [r for r in more if group_of(r) == group] for group in sets.groups}
    parts |= {"two labels": [r for r in more if len(unseen.load(r.set_name).labels) == 2]}
    parts |= {"all with 4 examples a label or more": more}
    titles = ("rows", "accuracy", "rows below the best single", "log loss above zero-shot's")
    lines = Lines(titles, "zero-shot", _is_below)
    table = [
        line
        for title, part in parts.items()
        for line in lines.of(title, [row.name for row in part], _SHOWN, found)
    ]
    settings = {
        "splits that judge": sets.judging,
        "splits that choose": sets.choosing,
        **{f"chosen without {group}": name for group, name in choices.items()},
        **{f"{name} sha256": unseen.load(name).digest for name in sets.names},
    }
    return Report("Closed forms on groups of sets that were left out", COLUMNS, table, settings)


def _is_below(row: Mapping[str, BySplit], contestant: str) -> bool:
    """Return whether a row is below the best single method by more than .015 and two errors."""
    best = better_of(row, _SINGLE)
    if best is None or contestant == best:
        return False
    interval = Interval.of(differences(row[contestant], row[best]))
    return interval.mean < LEAST_DIFFERENCE - (interval.half_width or 0.0)


def run(chosen: argparse.Namespace, path: Path) -> Sequence[Report]:
    """Choose and judge."""
    quick = Sets(QUICK_SETS, judging=2, choosing=1)
    sets = quick if chosen.quick else Sets(unseen.NAMES, chosen.splits, chosen.choosing)
    measurement = Measurement(sets, Records(path))
    choices = measurement.choices()
    return [report(sets, choices, measurement.judged(choices))]


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--choosing", type=int, default=3, help="splits that choose (3)")


PIPELINE = Pipeline(__doc__, 20, RECORDS, _options, run)

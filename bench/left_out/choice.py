"""Chooses a mixture of heads for each group of sets on all other groups, and judges it there."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from torch import Tensor

from bench.left_out.cases import FIRST_TO_CHOOSE, Case, cases, rows_of
from bench.left_out.contestants import BEFORE, FROZEN, MIXTURES, Contestant, closed_form
from bench.left_out.features import FeatureStore
from bench.quality_records import Key, Records
from bench.quality_scores import BySplit, Scores, score
from bench.sets.rows import Row
from bench.sets.unseen import SOURCES

CHOSEN = "closed form"
Found = Mapping[str, Mapping[str, BySplit]]
"""Scores by row, contestant and seed."""


@dataclass(frozen=True)
class Sets:
    """What is measured: names of sets, and how many splits judge and choose."""

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


def group_of(row: Row) -> str:
    """Return the group of a row's set."""
    return SOURCES[row.set_name].group


class Measurement:
    """Runs contestants on splits; those that have a record are not run again."""

    def __init__(self, sets: Sets, records: Records) -> None:
        self._sets, self._records, self._store = sets, records, FeatureStore()

    def choices(self) -> dict[str, str]:
        """Return, for each group, the mixture with the least mean log loss on all others.

        Rows with one example a label take no part: `auto` answers them by gradients.
        """
        rows = [row for row in self._sets.rows if row.per_label > 1]
        seeds = range(FIRST_TO_CHOOSE, FIRST_TO_CHOOSE + self._sets.choosing)
        found = self._scores(rows, seeds, dict.fromkeys(self._sets.groups, tuple(MIXTURES)))
        return {group: _best(rows, found, group) for group in self._sets.groups}

    def judged(self, choices: Mapping[str, str]) -> Found:
        """Return the scores of the judging splits, of what others chose for each set."""
        wanted = {group: (*FROZEN, BEFORE, name) for group, name in choices.items()}
        found = self._scores(self._sets.rows, range(self._sets.judging), wanted)
        return {
            row.name: {
                **{name: found[row.name][name] for name in (*FROZEN, BEFORE)},
                CHOSEN: found[row.name][choices[group_of(row)]],
            }
            for row in self._sets.rows
            if row.name in found
        }

    def _scores(
        self, rows: Sequence[Row], seeds: Sequence[int], wanted: Mapping[str, Sequence[str]]
    ) -> dict[str, dict[str, dict[int, Scores]]]:
        found: dict[str, dict[str, dict[int, Scores]]] = {}
        for case, name in self._wanted(rows, seeds, wanted):
            by_name = found.setdefault(case.row.name, {})
            by_name.setdefault(name, {})[case.seed] = self._scored(case, name)
        return found

    def _wanted(
        self, rows: Sequence[Row], seeds: Sequence[int], wanted: Mapping[str, Sequence[str]]
    ) -> Iterator[tuple[Case, str]]:
        """Yield each case with each contestant, all rows of a seed before the next seed."""
        for seed in seeds:
            for case in cases(self._store, rows, [seed]):
                yield from ((case, name) for name in wanted[group_of(case.row)])

    def _scored(self, case: Case, name: str) -> Scores:
        key = Key(case.row.name, case.seed, name, case.digest)
        if key not in self._records:
            self._records.add(key, _score(_contestant(name)(case), case))
        return self._records[key]


def _contestant(name: str) -> Contestant:
    return FROZEN.get(name) or partial(closed_form, mixture=MIXTURES[name])


def _score(probabilities: Tensor, case: Case) -> Scores:
    labels = [str(label) for label in range(probabilities.shape[1])]
    return score(probabilities, labels, [labels[at] for at in case.wanted.tolist()], 0.0)


def _best(rows: Sequence[Row], found: Found, group: str) -> str:
    others = [row.name for row in rows if group_of(row) != group and row.name in found]

    def loss(name: str) -> float:
        each = (found[row][name].values() for row in others)
        return statistics.fmean(statistics.fmean(s.log_loss for s in scores) for scores in each)

    return min(MIXTURES, key=loss)

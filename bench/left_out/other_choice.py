"""Chooses a mixture of heads without names on one half of the sets, and measures both halves."""

import itertools
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from bench.left_out.cases import FIRST_TO_CHOOSE, KINDS, Case, case_of
from bench.left_out.other_contestants import AS_IS, CONTESTANTS, MIXTURES, PRIOR, SINGLE
from bench.left_out.other_features import OtherFeatures
from bench.left_out.other_numbers import CONTESTANTS as OF_NUMBERS
from bench.left_out.other_numbers import SIZES, number_case, score_numbers
from bench.left_out.other_runs import draw, runs_of
from bench.quality_frozen import Contestant
from bench.quality_records import Key, Records
from bench.quality_scores import BySplit, Scores, score
from bench.sets import others
from bench.sets.rows import Row
from cog_adapt.runner.config import Recipe

_PICTURES_RUN = 4  # of a label

Found = Mapping[str, Mapping[str, BySplit]]
"""Scores by row, contestant and seed."""


@dataclass(frozen=True)
class OtherSets:
    """What is measured.

    Attributes:
        names: of sets.
        judging: splits of each row that judge.
        choosing: splits of each row that choose.
        running: splits of each row that the runner itself adapts to.
    """

    names: Sequence[str]
    judging: int
    choosing: int
    running: int

    @property
    def labelled(self) -> list[str]:
        """The sets of labels."""
        return [name for name in self.names if others.SOURCES[name].kind != others.NUMBERS]

    @property
    def rows(self) -> list[Row]:
        """All rows, of labels and of numbers."""
        return [row for name in self.names for row in rows_of(name)]


def rows_of(name: str) -> list[Row]:
    """Return the rows of a set."""
    if others.SOURCES[name].kind == others.NUMBERS:
        return [Row(name, size) for size in SIZES]
    return [replace(kind, set_name=name) for kind in KINDS]


def _run_rows(name: str) -> list[Row]:
    """Return the rows that the runner itself adapts to; of pictures one, for forwards are long."""
    of_pictures = others.SOURCES[name].kind == others.PICTURES
    return [row for row in rows_of(name) if not of_pictures or row.per_label == _PICTURES_RUN]


class Measurement:
    """Runs contestants on splits; those that have a record are not run again."""

    def __init__(self, sets: OtherSets, records: Records) -> None:
        self._sets, self._records, self._store = sets, records, OtherFeatures()

    def losses(self) -> dict[str, float]:
        """Return the mean log loss of each mixture on the half that chooses."""
        names = [name for name in self._sets.labelled if name not in others.HELD]
        seeds = range(FIRST_TO_CHOOSE, FIRST_TO_CHOOSE + self._sets.choosing)
        found = _gathered(self._of_labels(names, seeds, tuple(MIXTURES)))
        return {name: _mean_loss(found, name) for name in MIXTURES}

    def judged(self, chosen: str) -> Found:
        """Return the scores of the judging splits: of what needs no choice, and of the chosen."""
        wanted = tuple(dict.fromkeys((PRIOR, *SINGLE, AS_IS, chosen)))
        seeds = range(self._sets.judging)
        numbers = [name for name in self._sets.names if name not in self._sets.labelled]
        found = self._of_labels(self._sets.labelled, seeds, wanted)
        return _gathered(itertools.chain(found, self._of_numbers(numbers, seeds)))

    def run(self) -> Found:
        """Return the scores of what the runner itself makes of the first judging splits."""
        names = self._sets.names if self._sets.running else ()
        return _gathered(item for name in names for item in self._runs_of(name))

    def _runs_of(self, name: str) -> Iterator[tuple[Key, Scores]]:
        rows, seeds = _run_rows(name), range(self._sets.running)
        splits = [(row, seed) for seed in seeds for row in rows if self._is_whole(row, seed)]
        with runs_of(name) as runs:
            for (row, seed), contestant in itertools.product(splits, runs):
                key = Key(row.name, seed, contestant, others.digest(name))
                yield self._kept(key, partial(_run, runs[contestant], row, seed))

    def _is_whole(self, row: Row, seed: int) -> bool:
        """Return whether each label has an example; noise may take a label's only ones."""
        return row.set_name not in self._sets.labelled or self._case(row, seed).is_whole

    def _case(self, row: Row, seed: int) -> Case:
        return case_of(self._store, others.load(row.set_name), row, seed)

    def _of_labels(
        self, names: Sequence[str], seeds: Sequence[int], wanted: Sequence[str]
    ) -> Iterator[tuple[Key, Scores]]:
        """Yield all rows of a seed before the next seed."""
        rows = [row for name in names for row in rows_of(name)]
        drawn = (self._case(row, seed) for seed in seeds for row in rows)
        for case in (case for case in drawn if case.is_whole):
            for name in wanted:
                key = Key(case.row.name, case.seed, name, case.digest)
                yield self._kept(key, partial(_scores_of, name, case))

    def _of_numbers(
        self, names: Sequence[str], seeds: Sequence[int]
    ) -> Iterator[tuple[Key, Scores]]:
        rows = [row for name in names for row in rows_of(name)]
        for seed, row, name in itertools.product(seeds, rows, OF_NUMBERS):
            key = Key(row.name, seed, name, others.digest(row.set_name))
            yield self._kept(key, partial(_number_scores, name, row, seed))

    def _kept(self, key: Key, compute: Callable[[], Scores]) -> tuple[Key, Scores]:
        if key not in self._records:
            self._records.add(key, compute())
        return key, self._records[key]


def _scores_of(name: str, case: Case) -> Scores:
    probabilities = CONTESTANTS[name](case)
    labels = [str(label) for label in range(probabilities.shape[1])]
    return score(probabilities, labels, [labels[at] for at in case.wanted.tolist()], 0.0)


def _run(contestant: Contestant, row: Row, seed: int) -> Scores:
    return contestant(draw(row, seed), Recipe(seed=seed))


def _number_scores(name: str, row: Row, seed: int) -> Scores:
    case = number_case(row, seed)
    return score_numbers(OF_NUMBERS[name](case), case)


def _gathered(items: Iterable[tuple[Key, Scores]]) -> Found:
    found: dict[str, dict[str, dict[int, Scores]]] = {}
    for key, scores in items:
        found.setdefault(key.row, {}).setdefault(key.contestant, {})[key.split] = scores
    return found


def _mean_loss(found: Found, name: str) -> float:
    each = (found[row][name].values() for row in found)
    return statistics.fmean(statistics.fmean(s.log_loss for s in scores) for scores in each)

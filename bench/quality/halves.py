"""Chooses a mixture of heads without names on one half of the sets, and measures both halves."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from bench.quality.cases import FIRST_TO_CHOOSE, KINDS, case_of, cases
from bench.quality.closed_forms import answers
from bench.quality.features import OtherFeatures
from bench.quality.means import mean
from bench.quality.models import draw, runs_of
from bench.quality.nameless import AS_IS, CONTESTANTS, MIXTURES, PRIOR, SINGLE
from bench.quality.numbers import CONTESTANTS as OF_NUMBERS
from bench.quality.numbers import SIZES, number_case
from bench.quality.records import Key, Records, Results, Work, measured
from bench.quality.scores import Scores, score_numbers
from bench.quality.turns import Contestant
from bench.sets import others
from bench.sets.rows import Row
from cog_adapt.runner.config import Recipe

_PICTURES_RUN = 4  # of a label


@dataclass(frozen=True)
class OtherSets:
    """The sets and numbers of splits to measure.

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
    """Return the rows that the runner itself adapts to; only one of pictures: forwards are long."""
    of_pictures = others.SOURCES[name].kind == others.PICTURES
    return [row for row in rows_of(name) if not of_pictures or row.per_label == _PICTURES_RUN]


class OtherMeasurement:
    """Runs contestants on splits; splits with a record are not run again."""

    def __init__(self, sets: OtherSets, records: Records) -> None:
        self._sets, self._records, self._store = sets, records, OtherFeatures()

    def losses(self) -> dict[str, float]:
        """Return the mean log loss of each mixture on the half that chooses."""
        names = [name for name in self._sets.labelled if name not in others.HELD]
        seeds = range(FIRST_TO_CHOOSE, FIRST_TO_CHOOSE + self._sets.choosing)
        found = measured(self._of_labels(names, seeds, tuple(MIXTURES)), self._records)
        return {name: mean("log_loss", [*found], name, found) for name in MIXTURES}

    def judged(self, chosen: str) -> Results:
        """Return the scores of the judging splits: without a choice, and of the chosen mixture."""
        wanted = tuple(dict.fromkeys((PRIOR, *SINGLE, AS_IS, chosen)))
        seeds = range(self._sets.judging)
        numbers = [name for name in self._sets.names if name not in self._sets.labelled]
        labels = self._of_labels(self._sets.labelled, seeds, wanted)
        return measured(itertools.chain(labels, _of_numbers(numbers, seeds)), self._records)

    def run(self) -> Results:
        """Return the scores of the runner's own adaptations on the first judging splits."""
        names = self._sets.names if self._sets.running else ()
        work = (item for name in names for item in self._runs_of(name))
        return measured(work, self._records)

    def _runs_of(self, name: str) -> Iterator[tuple[Key, partial[Scores]]]:
        rows, seeds = _run_rows(name), range(self._sets.running)
        splits = [(row, seed) for seed in seeds for row in rows if self._is_whole(row, seed)]
        with runs_of(name) as runs:
            for (row, seed), contestant in itertools.product(splits, runs):
                key = Key(row.name, seed, contestant, others.digest(name))
                yield key, partial(_run, runs[contestant], row, seed)

    def _is_whole(self, row: Row, seed: int) -> bool:
        """Return whether each label has an example; noise may take a label's only ones."""
        texts = others.load(row.set_name) if row.set_name in self._sets.labelled else None
        return texts is None or case_of(self._store, texts, row, seed).is_whole

    def _of_labels(self, names: Sequence[str], seeds: Sequence[int], wanted: Sequence[str]) -> Work:
        rows = [row for name in names for row in rows_of(name)]
        drawn = cases(self._store, others.load, rows, seeds)
        return answers(drawn, lambda case: wanted, CONTESTANTS)


def _of_numbers(names: Sequence[str], seeds: Sequence[int]) -> Work:
    rows = [row for name in names for row in rows_of(name)]
    for seed, row, name in itertools.product(seeds, rows, OF_NUMBERS):
        key = Key(row.name, seed, name, others.digest(row.set_name))
        yield key, partial(_number_scores, name, row, seed)


def _run(contestant: Contestant, row: Row, seed: int) -> Scores:
    return contestant(draw(row, seed), Recipe(seed=seed))


def _number_scores(name: str, row: Row, seed: int) -> Scores:
    case = number_case(row, seed)
    return score_numbers(OF_NUMBERS[name](case), case.wanted, 0.0)

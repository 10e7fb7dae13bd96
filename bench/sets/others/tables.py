"""Turns rows of a table into numbers, as a caller of the table kind has to send them.

A missing number becomes the mean, and another column marks it; each word of a column of words is a
column of zeros and ones. The rows that the network has learned decide about columns;
a column with one value in all of these rows is left out.
"""

import random
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.sets.others.rows import Rows

Cells = Mapping[str, str]
"""The cells of a row, by column."""

_MISSING = frozenset(["", "NA", "NaN", "?", "nan"])
_MOST_ROWS, _MOST_LEARNED = 6000, 1000
_MOST_WORDS = 12  # of a column: rarer ones are zeros in all its columns
_LEARNED = 1 / 3  # of the rows, where no group of rows is named


@dataclass(frozen=True)
class TableSource:
    """How a table is read.

    Attributes:
        rows: yields its rows.
        target: the column to predict, a label or a number.
        learned: the column of numbers that the network has learned before any example; it is then
            missing in the rows. The same as `target` for numbers.
        left_out: columns that are names, or would give the answer away.
        knows: whether the network has learned from a row; by default a random third.
    """

    rows: Callable[[], Rows]
    target: str
    learned: str
    left_out: tuple[str, ...] = ()
    knows: Callable[[Cells], bool] | None = None


@dataclass(frozen=True)
class Table:
    """A table in numbers.

    Attributes:
        learned: rows that the network has learned from, with the number that it has learned, in
            deviations from their mean.
        rows: all others, with the target's cell; in the same deviations if the target
            is what the network has learned.
    """

    learned: Sequence[tuple[list[float], float]]
    rows: Sequence[tuple[list[float], str]]

    @property
    def width(self) -> int:
        """The number of numbers in a row."""
        return len(self.learned[0][0])


def table_of(source: TableSource, name: str) -> Table:
    """Read a table; rows are mixed, the same way each time."""
    rows = [row for row in source.rows() if row[source.target] not in _MISSING]
    chance = random.Random(name)
    chance.shuffle(rows)
    rows = rows[:_MOST_ROWS]
    is_known = source.knows or (lambda _: chance.random() < _LEARNED)
    marks = [is_known(row) for row in rows]
    known = [row for row, mark in zip(rows, marks, strict=True) if mark][:_MOST_LEARNED]
    known = [row for row in known if row[source.learned] not in _MISSING]
    hidden = {source.target, source.learned, *source.left_out}
    shown = [each for each in rows[0] if each not in hidden]
    varied = [each for each in shown if len({row[each] for row in known}) > 1]
    columns = [Column.of(each, known) for each in varied]
    numbers = [float(row[source.learned]) for row in known]
    mean, spread = statistics.fmean(numbers), statistics.pstdev(numbers)
    learned = [
        (_encoded(row, columns), _short((number - mean) / spread))
        for row, number in zip(known, numbers, strict=True)
    ]
    others = [row for row, mark in zip(rows, marks, strict=True) if not mark]
    targets = [row[source.target] for row in others]
    if source.target == source.learned:
        targets = [str(_short((float(each) - mean) / spread)) for each in targets]
    encoded = [_encoded(row, columns) for row in others]
    return Table(learned, list(zip(encoded, targets, strict=True)))


@dataclass(frozen=True)
class Column:
    """How a column becomes numbers.

    Attributes:
        name: of the column.
        mean: of its numbers; None for words.
        words: its frequent words; a missing one is a word too.
        can_be_missing: whether another column marks that the number is missing.
    """

    name: str
    mean: float | None
    words: tuple[str, ...]
    can_be_missing: bool

    @classmethod
    def of(cls, name: str, known: Sequence[Cells]) -> "Column":
        """Describe a column by the rows that are known."""
        cells = [row[name] for row in known]
        present = [cell for cell in cells if cell not in _MISSING]
        if all(map(_is_number, present)):
            mean = statistics.fmean(map(float, present))
            return cls(name, mean, (), len(present) < len(cells))
        times = {word: cells.count(word) for word in set(cells)}
        words = sorted(times, key=lambda word: (-times[word], word))[:_MOST_WORDS]
        return cls(name, None, tuple(sorted(words)), can_be_missing=False)

    def encoded(self, cell: str) -> Iterator[float]:
        """Yield the numbers of a cell."""
        if self.mean is None:
            yield from (float(cell == word) for word in self.words)
            return
        is_number = cell not in _MISSING and _is_number(cell)
        yield float(cell) if is_number else _short(self.mean)
        if self.can_be_missing:
            yield float(not is_number)


def _encoded(row: Cells, columns: Sequence[Column]) -> list[float]:
    return [number for column in columns for number in column.encoded(row[column.name])]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _short(number: float) -> float:
    """Round to digits that are the same on every machine."""
    return float(f"{number:.6g}")

"""One row of a source of examples: its columns, its place, its fault."""

import reprlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

INPUT_NAMES = ("input", "text", "sentence")
TARGET_NAMES = ("target", "label")
MOST_COLUMNS = 1_000
HALF_A_PAIR = "a text has half a surrogate pair, which no encoding has: remove it"
ACCEPTED = (
    'give a JSON list of {"input": ..., "target": ...}, a JSON object {target: [inputs]}, '
    "JSON Lines, or CSV whose first line is input,target"
)

_shortener = reprlib.Repr()
_shortener.maxstring = _shortener.maxlong = _shortener.maxother = 60
_shortener.maxlevel = 1
_shortener.maxlist = 2
_shortener.maxdict = 2


class Row(Mapping[str, Any]):
    """One row of a source, which remembers the columns that were read.

    Attributes:
        place: the row's place in the source, for messages.
        used: the columns that were read; the others are extra ones.
    """

    def __init__(self, place: str, values: Mapping[str, Any]) -> None:
        self.place = place
        self.used: set[str] = set()
        self._values = values

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - any value of JSON
        value = self._values[name]
        self.used.add(name)
        return value

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Row({self.place!r}, {dict(self._values)!r})"


class FlatRow(Row):
    """A file of a ZIP that lies in no folder, and so has no target."""


@dataclass(frozen=True)
class Fault:
    """A row that cannot be an example: its place and the remedy."""

    place: str
    problem: str
    cause: Exception | None = None


@dataclass(frozen=True)
class Rows:
    """The rows of one source, read one by one, and the unit of their numbers."""

    each: Iterator[Row | Fault]
    counting: str


def brief(value: object) -> str:
    """Show any value in a few dozen characters, unprintable ones escaped."""
    return _shortener.repr(value)

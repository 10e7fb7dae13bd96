"""Results as they come: one JSON line for each row, split and contestant, so runs can continue.

A line also has the digest of its set: a set that has changed is measured again.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.quality.scores import BySplit, Scores


@dataclass(frozen=True)
class Key:
    """The subject of one result."""

    row: str
    split: int
    contestant: str
    digest: str


Work = Iterable[tuple[Key, Callable[[], Scores]]]
"""Wanted results, and the function that computes each."""
Results = Mapping[str, Mapping[str, BySplit]]
"""Scores by row, contestant and split."""


class Records:
    """The results in a file of JSON lines; a cut last line is dropped.

    Args:
        path: of the file; made when the first result comes.
        again: contestants to be measured once more; their results are dropped.
    """

    def __init__(self, path: Path, again: Collection[str] = ()) -> None:
        self._path = path
        self._known: dict[Key, Scores] = {}
        lines = path.read_text("utf-8").splitlines(keepends=True) if path.exists() else []
        for line in lines:
            if line.endswith("\n"):
                self._take(json.loads(line), again)
        kept = [_line(item) for item in self._known.items()]
        if kept != lines:
            path.write_text("".join(kept), "utf-8")

    def _take(self, row: dict[str, dict[str, object]], again: Collection[str]) -> None:
        key = Key(**row["key"])  # type: ignore[arg-type]
        if key.contestant not in again:
            self._known[key] = Scores(**row["scores"])  # type: ignore[arg-type]

    def __contains__(self, key: Key) -> bool:
        return key in self._known

    def __getitem__(self, key: Key) -> Scores:
        """Return a result.

        Raises:
            KeyError: the result is missing.
        """
        return self._known[key]

    def add(self, key: Key, scores: Scores) -> None:
        """Store a result, in the file first."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(_line((key, scores)))
        self._known[key] = scores

    def of_row(self, row: str, digest: str, splits: int) -> Mapping[str, BySplit]:
        """Return the scores of a row by contestant and split, of the first `splits` splits."""
        found: dict[str, dict[int, Scores]] = {}
        for key, scores in self._known.items():
            if key.row == row and key.digest == digest and key.split < splits:
                found.setdefault(key.contestant, {})[key.split] = scores
        return found


def measured(work: Work, records: Records) -> Results:
    """Compute results without a record, store them, and return all wanted results."""
    found: dict[str, dict[str, dict[int, Scores]]] = {}
    for key, compute in work:
        if key not in records:
            records.add(key, compute())
        found.setdefault(key.row, {}).setdefault(key.contestant, {})[key.split] = records[key]
    return found


def _line(item: tuple[Key, Scores]) -> str:
    key, scores = item
    return json.dumps({"key": asdict(key), "scores": asdict(scores)}) + "\n"

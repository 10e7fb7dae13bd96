"""Pairs of outcomes as they come, in a JSON file, so that an interrupted run continues."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.own_models.contest import Outcome


@dataclass(frozen=True)
class Pair:
    """The outcomes of the two ways with one seed.

    Attributes:
        seed: draws the rows.
        ours: the outcome of this project.
        hand: the outcome of the code by hand.
        load: of the machine in the minute before the end.
        threads: the number for each torch operation.
    """

    seed: int
    ours: Outcome
    hand: Outcome
    load: float
    threads: int


class Records:
    """The pairs of each kind by its name.

    Args:
        path: of the file; None: nothing is written.
        forget: names of kinds to be measured again.
    """

    def __init__(self, path: Path | None = None, forget: Sequence[str] = ()) -> None:
        self._path = path
        text = path.read_text("utf-8") if path and path.exists() else "{}"
        self._kept = {
            name: [_pair(each) for each in pairs]
            for name, pairs in json.loads(text).items()
            if name not in forget
        }

    def of(self, name: str) -> list[Pair]:
        """Return the pairs of a kind, in the order of its seeds."""
        return sorted(self._kept.get(name, []), key=lambda pair: pair.seed)

    def add(self, name: str, pair: Pair) -> None:
        """Store a pair, in the file too."""
        self._kept.setdefault(name, []).append(pair)
        if self._path:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            kinds = ",\n".join(map(self._line, self._kept))
            self._path.write_text(f"{{\n{kinds}\n}}\n", "utf-8")

    def _line(self, name: str) -> str:
        pairs = ",\n  ".join(json.dumps(_plain(pair)) for pair in self.of(name))
        return f" {json.dumps(name)}: [\n  {pairs}]"


def _plain(pair: Pair) -> dict[str, object]:
    rounded = {side: _rounded(each) for side, each in (("ours", pair.ours), ("hand", pair.hand))}
    return {"seed": pair.seed, **rounded, "load": round(pair.load, 1), "threads": pair.threads}


def _rounded(outcome: Outcome) -> dict[str, float]:
    known = {name: value for name, value in asdict(outcome).items() if value is not None}
    return {name: float(f"{value:.5g}") for name, value in known.items()}


def _pair(kept: Mapping[str, Any]) -> Pair:
    ours, hand = Outcome(**kept["ours"]), Outcome(**kept["hand"])
    return Pair(kept["seed"], ours, hand, kept["load"], kept["threads"])

"""What the command needs to know of a pipeline."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.report import Report


@dataclass(frozen=True)
class Pipeline:
    """From splits to tables.

    Attributes:
        text: says what it measures.
        splits: of each row, where no number is asked for.
        records: the file of its results.
        options: adds its own to a parser.
        run: measures what has no record in a file and returns tables, of which the first is kept.
    """

    text: str | None
    splits: int
    records: Path
    options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace, Path], Sequence[Report]]

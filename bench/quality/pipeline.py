"""What the command needs to know about a pipeline."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.report import Report


@dataclass(frozen=True)
class Pipeline:
    """The way from splits to tables.

    Attributes:
        text: the description of the measurement.
        splits: the default number for each row.
        records: the file of its results.
        options: adds the pipeline's own to a parser.
        run: measures results without a record and returns tables, of which the first is stored.
    """

    text: str | None
    splits: int
    records: Path
    options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace, Path], Sequence[Report]]

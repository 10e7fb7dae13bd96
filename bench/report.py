"""Common parts of the benchmarks: arguments, interleaved rounds, spreads, a table, a result file.

Contestants take turns within one run and the order rotates, so that a busy machine slows all of
them alike. A result file names versions and hardware, never a host or a path.
"""

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import torch
from rich.console import Console
from rich.table import Table
from transformers.utils import logging

from gradient_check.phases.precision import Precision

T = TypeVar("T")
Row = Mapping[str, Any]
Columns = Mapping[str, Callable[[Any], str]]
"""Titles, which are the keys of the rows, and functions that format the values."""

_PACKAGES = ("torch", "transformers", "peft", "accelerate")
console = Console(width=None if os.environ.get("COLUMNS") else 110)


@dataclass(frozen=True)
class Spread:
    """Repeated measurements of one thing."""

    median: float
    mean: float
    sd: float
    low: float
    lower_quartile: float
    upper_quartile: float
    high: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Compute the spread of one or more values; the deviation of a single one is 0."""
        quartiles = statistics.quantiles(values, n=4) if len(values) > 1 else [values[0]] * 3
        return cls(
            median=statistics.median(values),
            mean=statistics.fmean(values),
            sd=statistics.stdev(values) if len(values) > 1 else 0.0,
            low=min(values),
            lower_quartile=quartiles[0],
            upper_quartile=quartiles[2],
            high=max(values),
            count=len(values),
        )


def seconds(spread: Spread) -> str:
    """Format the median and range of times."""
    return f"{spread.median:.2f} ({spread.low:.2f}–{spread.high:.2f})"


def milliseconds(spread: Spread) -> str:
    """Format the median and quartiles of short times, given in milliseconds."""
    return f"{spread.median:.3f} ({spread.lower_quartile:.3f}–{spread.upper_quartile:.3f})"


def share(spread: Spread) -> str:
    """Format the mean and deviation of accuracies."""
    return f"{spread.mean:.3f} ± {spread.sd:.3f}"


def ratio(spread: Spread) -> str:
    """Format the median of the rounds' ratios."""
    return f"{spread.median:.2f}"


def percent(part: Spread) -> str:
    """Format the median of shares, and their quartiles if there is more than one value."""
    if part.count == 1:
        return f"{part.median:.2%}"
    return f"{part.median:.2%} ({part.lower_quartile:.1%}–{part.upper_quartile:.1%})"


def arguments(
    description: str | None,
    add_options: Callable[[argparse.ArgumentParser], None] | None = None,
    given: Sequence[str] | None = None,
) -> argparse.Namespace:
    """Parse `--quick`, `--output`, `--threads` and added options; set this process's threads.

    Args:
        description: of the benchmark.
        add_options: adds its own.
        given: the arguments to parse; by default the command line.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="seconds instead of minutes, for CI")
    parser.add_argument("--output", type=Path, help="write the numbers here as JSON")
    parser.add_argument("--threads", type=int, default=2, help="of each torch operation")
    if add_options is not None:
        add_options(parser)
    chosen = parser.parse_args(given)
    if chosen.threads < 1:
        parser.error(f"--threads is {chosen.threads}: at least 1, such as 2")
    if chosen.output is not None and (reason := _why_not_written(chosen.output)):
        parser.error(f"--output is {chosen.output}: {reason}")
    torch.set_num_threads(chosen.threads)
    logging.disable_progress_bar()
    return chosen


def _why_not_written(output: Path) -> str:
    """Return why a file cannot be written, before anything is measured; "" if it can."""
    if output.is_dir():
        return "a folder; name a file in it"
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=output.parent):
            return ""
    except OSError as error:
        return f"its folder can't be written to ({error.strerror}); name a file in another"


def clock(device: torch.device) -> float:
    """Wait for all work on `device`, and return the time."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def interleave(contestants: Mapping[str, Callable[[int], T]], rounds: int) -> dict[str, list[T]]:
    """Call each contestant once a round, with the round's number, in rotating order."""
    names = list(contestants)
    results: dict[str, list[T]] = {name: [] for name in names}
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            results[name].append(contestants[name](number))
    return results


@dataclass(frozen=True)
class Report:
    """One table, and the settings needed to repeat it."""

    title: str
    columns: Columns
    rows: Sequence[Row]
    settings: Mapping[str, Any] = field(default_factory=dict)

    def publish(self, precision: Precision, output: Path | None) -> None:
        """Print the table, and write the numbers to `output`."""
        table = Table(title=self.title, title_justify="left", highlight=False)
        for number, title in enumerate(self.columns):
            table.add_column(title, justify="right" if number else "left")
        for row in self.rows:
            cells = ((row.get(title), show) for title, show in self.columns.items())
            table.add_row(*("–" if value is None else show(value) for value, show in cells))
        console.print(table)
        for name, value in self.settings.items():
            console.print(f"{name}: {value}", highlight=False)
        if output is not None:
            output.parent.mkdir(parents=True, exist_ok=True)
            output.write_text(json.dumps(self._numbers(precision), indent=2) + "\n", "utf-8")

    def _numbers(self, precision: Precision) -> dict[str, Any]:
        rows = [{title: _plain(value) for title, value in row.items()} for row in self.rows]
        return {
            "title": self.title,
            "date": time.strftime("%Y-%m-%d", time.gmtime()),
            "environment": environment(precision),
            "settings": dict(self.settings),
            "rows": rows,
        }


def environment(precision: Precision) -> dict[str, Any]:
    """Return versions and hardware, and the load of the machine."""
    device = precision.device
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in _PACKAGES},
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "precision": str(precision),
        "load_1min": round(os.getloadavg()[0], 2),
    }


def _cpu_model() -> str:
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def _plain(value: Any) -> Any:  # noqa: ANN401 - whatever a row holds
    if is_dataclass(value) and not isinstance(value, type):
        return {name: _plain(number) for name, number in asdict(value).items()}
    return float(f"{value:.5g}") if isinstance(value, float) else value

"""Runs the ticks of the runner's work, at once."""

from collections.abc import Generator
from typing import Any

from cog_adapt.runner.adaptation.memory_estimate import Needed


def drained(ticks: Generator[Any, None, Any]) -> tuple[list[Any], Any]:
    """Return what a generator yields, and what it returns."""
    seen = []
    while True:
        try:
            seen.append(next(ticks))
        except StopIteration as stop:
            return seen, stop.value


def to_first_step(ticks: Generator[Any, None, Any]) -> Generator[Any, None, Any]:
    """Run an adaptation up to its first step; before, a forward measures what memory it needs."""
    while not isinstance(next(ticks), Needed):
        pass
    return ticks

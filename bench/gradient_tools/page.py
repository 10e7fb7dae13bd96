"""Writes the table of a run into the page about it."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_KINDS = ("no gradient", "wrong gradient", "beside the gradient")
_COUNTS = ("faults seen", *_KINDS, "line named", "healthy called wrong", "not asked")
_TIMES = "processor ms: median (quartiles)"
_BLOCK = re.compile(
    r"^\| tool \| faults seen \|.*\n(?:\|.*\n)+\n(?:Asked about .*\n)?", re.MULTILINE
)


def block_of(found: Mapping[str, Any]) -> str:
    """Return a run's table, and a sentence about the number of cases."""
    titles = ("tool", *_COUNTS, _TIMES)
    lines = [titles, ["---"] * len(titles), *map(_cells, found["rows"])]
    table = "".join(f"|{'|'.join(_padded(cell) for cell in line)}|\n" for line in lines)
    said = found["settings"]
    kinds = ", ".join(f"{said[kind]} {kind}" for kind in (*_KINDS, "healthy"))
    asked = f"{said['subjects asked']} of {said['subjects there are']} cases: {kinds}"
    return f"{table}\nAsked about {asked}.\n"


def write_block(page: Path, found: Mapping[str, Any]) -> None:
    """Replace the page's table by a run's.

    Raises:
        ValueError: the page has no table of tools, or more than one.
    """
    text, count = _BLOCK.subn(lambda _: block_of(found), page.read_text("utf-8"))
    if count != 1:
        raise ValueError(f"{page} has {count} tables of tools, not one")
    page.write_text(text, "utf-8")


def _cells(row: Mapping[str, Any]) -> list[str]:
    name = row["tool"]
    shown = f"`{name}`" if name.isidentifier() else name
    return [shown, *(row[title] for title in _COUNTS), _times(row["processor ms"])]


def _times(spread: Mapping[str, float] | None) -> str:
    if spread is None:
        return "–"
    low, high = f"{spread['lower_quartile']:.0f}", f"{spread['upper_quartile']:.0f}"
    return f"{spread['median']:.0f} ({low} to {high}, at most {spread['high']:,.0f})"


def _padded(cell: str) -> str:
    return cell if cell == "---" else f" {cell} "

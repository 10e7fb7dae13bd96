"""The measured times that the simulation takes: from committed results, each with its source."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[2] / "docs" / "results"


@dataclass(frozen=True)
class Figure:
    """A number, its unit, and where it was measured."""

    value: float
    unit: str
    source: str


@cache
def _rows(file: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((RESULTS / file).read_text("utf-8"))["rows"]
    return rows


def committed(file: str, row: Mapping[str, str], column: str, unit: str) -> Figure:
    """Return the median of a column of a committed result.

    Args:
        file: its name in `docs/results/`.
        row: columns and values that the row has.
        column: of the number, or of its spread.
        unit: the number's.

    Raises:
        KeyError: no row has these values.
    """
    for each in _rows(file):
        if all(each.get(name) == value for name, value in row.items()):
            found = each[column]
            value = found["median"] if isinstance(found, dict) else found
            names = ", ".join(row.values())
            return Figure(float(value), unit, f"`{file}`, {names}, {column}")
    raise KeyError(f"{file} has no row with {dict(row)}. Measure it again with its benchmark.")


def figures() -> dict[str, Figure]:
    """Return the committed figures that the simulation uses."""
    front = {"server": "mirror, async", "case": "16 at a time"}
    return {
        "forward": committed("overhead.json", {"what": "runner's prediction"}, "ms", "ms"),
        "replica": committed("overhead.json", {"what": "serving replica"}, "ms", "ms"),
        "front": committed("serving.json", front, "CPU ms", "ms of a core"),
        "one request": committed(
            "load.json", {"what": "lone prediction"}, "CPU ms", "ms of a core"
        ),
        "32 requests of 8 adapters": committed(
            "load.json", {"what": "32 requests over 8 adapters"}, "CPU ms", "ms of a core"
        ),
        "closed form": committed("adaptation.json", {"contestant": "closed form"}, "adapt, s", "s"),
        "LoRA, 20 steps": committed(
            "adaptation.json",
            {"contestant": "LoRA from the closed form, 20 steps"},
            "adapt, s",
            "s",
        ),
        "auto": committed("adaptation.json", {"contestant": "auto"}, "adapt, s", "s"),
    }

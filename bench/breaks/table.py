"""The page of breaks: a table for each kind."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench.breaks.kinds import KINDS
from bench.breaks.planting import Break

Rows = Sequence[tuple[Break, str]]
"""Breaks, each with the page's entry: a test, NONE or NOT_YET."""
NONE, NOT_YET = "none", "not planted yet"
_HEAD = """# Planted breaks

`python -m bench.breaks` plants each break alone in a copy of the tree, and names the first test
that fails with the break and passes without it. A row is from the break's last run.
"""


def seen_before(page: Path, kind: str) -> dict[str, str]:
    """Return a page's entry for each break of a kind; nothing without a page."""
    rows = re.findall(r"^\| (.+) \| `[^`]+` \| (.+) \|$", _section(page, kind), re.MULTILINE)
    return {name.replace(r"\|", "|"): shown.strip("`*") for name, shown in rows}


def write(page: Path, rows: Mapping[str, Rows]) -> None:
    """Write the tables of some kinds; the tables of other kinds are unchanged."""
    sections = [
        "\n".join(_table(kind, rows[kind])) if kind in rows else _section(page, kind)
        for kind in KINDS
    ]
    parts = (_HEAD, *(section.strip("\n") + "\n" for section in sections if section))
    page.write_text("\n".join(parts), "utf-8")


def _section(page: Path, kind: str) -> str:
    text = page.read_text("utf-8") if page.exists() else ""
    found = re.search(rf"^## {kind}: .*?(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    return found[0] if found else ""


def _table(kind: str, rows: Rows) -> Iterator[str]:
    seen = sum(shown not in (NONE, NOT_YET) for _, shown in rows)
    counted = f"{seen} of {len(rows)} are seen, on {KINDS[kind].suite.device}."
    yield from (f"## {kind}: {KINDS[kind].title}", "", counted, "")
    yield from ("| break | file | first test that fails |", "|---|---|---|")
    for each, shown in rows:
        cell = f"**{shown}**" if shown in (NONE, NOT_YET) else f"`{shown}`"
        name = each.name.replace("|", r"\|")
        yield f"| {name} | `{each.path}` | {cell} |"

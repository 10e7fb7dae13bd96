"""Takes the snapshot, keeps it as text files, and compares two of them."""

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.contract_snapshot.budgets import budgets
from tests.contract_snapshot.command_line import command_line
from tests.contract_snapshot.log_lines import log_lines
from tests.contract_snapshot.public_names import public_names
from tests.contract_snapshot.served import served
from tests.contract_snapshot.setting_rows import settings

DATA = Path(__file__).parent / "data"
Facts = Mapping[str, list[str]]


def facts_of_tree() -> Facts:
    """Return the facts of this tree by the name of their part, sorted."""
    parts: dict[str, Iterable[str]] = {
        "budgets": budgets(),
        "command_line": command_line(),
        "log_lines": log_lines(),
        "public_names": public_names(),
        "settings": settings(),
        **served(),
    }
    return {name: sorted(set(lines)) for name, lines in parts.items()}


def write(facts: Facts, folder: Path) -> None:
    """Write a file for each part, and remove the files of parts that are gone."""
    folder.mkdir(exist_ok=True)
    for path in folder.glob("*.txt"):
        path.unlink()
    for name, lines in facts.items():
        text = "".join(f"{line}\n" for line in lines)
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")


def read(folder: Path) -> Facts:
    """Return the facts that `write` wrote."""
    return {path.stem: path.read_text("utf-8").splitlines() for path in folder.glob("*.txt")}


def differences(kept: Facts, found: Facts) -> str:
    """Return the lines that are gone (-) and new (+), by part; empty where there are none."""
    shown: list[str] = []
    for name in sorted({*kept, *found}):
        lines = difflib.unified_diff(
            kept.get(name, []),
            found.get(name, []),
            f"kept/{name}.txt",
            f"tree/{name}.txt",
            lineterm="",
            n=0,
        )
        shown += [line for line in lines if not line.startswith("@@")]
    return "\n".join(shown)

"""Verdicts as they come, one JSON line for each subject, so that an interrupted run continues."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

from bench.gradient_tools.subjects import Subject
from bench.gradient_tools.verdicts import Verdict

_ROOT = Path(__file__).parents[2]
_ASKED = ("gradient_check", "bench/gradient_tools")
Verdicts = Mapping[str, Verdict]


def digest_of_sources() -> str:
    """Return a digest of the check, of its cases and of this comparison."""
    found = sha256()
    for folder in _ASKED:
        for path in sorted((_ROOT / folder).rglob("*.py")):
            found.update(f"{path.relative_to(_ROOT)}\n".encode() + path.read_bytes())
    return found.hexdigest()


class Records:
    """The verdicts on subjects in a file; cut lines, and lines of other sources, are left out.

    Args:
        path: of the file, made when the first verdicts come.
        sources: the digest of the present sources.
    """

    def __init__(self, path: Path, sources: str) -> None:
        self._path = path
        self._sources = sources
        lines = path.read_text("utf-8").splitlines(keepends=True) if path.exists() else []
        rows = [json.loads(line) for line in lines if line.endswith("\n")]
        self._known = {
            (row["corpus"], row["name"]): row for row in rows if row["sources"] == sources
        }
        if lines and not lines[-1].endswith("\n"):
            path.write_text("".join(lines[:-1]), "utf-8")

    def of(self, subject: Subject, tools: Iterable[str]) -> Verdicts | None:
        """Return each tool's verdict on a subject; None without a record of it."""
        row = self._known.get((subject.corpus, subject.name))
        if row is None:
            return None
        return {tool: Verdict(**row["verdicts"][tool]) for tool in tools}

    def add(self, subject: Subject, verdicts: Verdicts) -> None:
        """Store the verdicts on a subject, in the file first."""
        row = {
            "sources": self._sources,
            "corpus": subject.corpus,
            "name": subject.name,
            "verdicts": {tool: asdict(verdict) for tool, verdict in verdicts.items()},
        }
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        self._known[subject.corpus, subject.name] = row

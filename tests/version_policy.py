"""The version policy: what the last release promised is gone only with a note and a new version.

`python -m tests.version_policy` makes this tree's contract the last release's, at its tag.
"""

import gzip
import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from tests.contract_snapshot.snapshot import DATA, Facts, read

ROOT = Path(__file__).parents[1]
RELEASED = ROOT / "tests" / "cog_adapt" / "data" / "released_contract.json.gz"
_BREAKING = re.compile(r"^## Unreleased\n(?:(?!^## ).*\n)*?### Breaking\n((?:(?!^#).*\n?)*)", re.M)
_NOTE = re.compile(r"^- (\w+): .", re.M)


@dataclass(frozen=True)
class Release:
    """A version, and the contract that it had."""

    version: str
    facts: Facts

    @classmethod
    def read(cls) -> "Release":
        """Read the last release, or the candidate of the first one."""
        return cls(**json.loads(gzip.decompress(RELEASED.read_bytes())))

    def write(self) -> None:
        """Make this the last release."""
        text = json.dumps({"version": self.version, "facts": dict(self.facts)})
        RELEASED.write_bytes(gzip.compress(text.encode(), mtime=0))

    def broken(self, found: Facts, *, version: str, notes: str) -> list[str]:
        """Return what breaks the policy.

        Args:
            found: the contract of a later tree.
            version: of that tree.
            notes: its CHANGELOG.
        """
        gone = {
            part: sorted(set(lines) - set(found.get(part, ())))
            for part, lines in self.facts.items()
        }
        lost = {part: lines for part, lines in gone.items() if lines}
        section = _BREAKING.search(notes)
        noted = set(_NOTE.findall(section[1])) if section else set()
        wrong = [
            f"{part}: no note under ### Breaking says why this is gone:\n  " + "\n  ".join(lines)
            for part, lines in lost.items()
            if part not in noted
        ]
        if lost and _minor(version) <= _minor(self.version):
            wrong.append(f"version {version}: a break needs a minor version above {self.version}")
        return wrong


def version_of_tree() -> str:
    """Return the version in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return str(project["version"])


def _minor(version: str) -> tuple[int, ...]:
    return tuple(int(each) for each in version.split(".")[:2])


if __name__ == "__main__":
    Release(version_of_tree(), read(DATA)).write()

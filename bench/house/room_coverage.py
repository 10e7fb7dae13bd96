"""Branch coverage by room: lists the rooms of both packages below 95 %.

`python -m bench.house.room_coverage server/records runner/heads` runs the tests of two rooms, and
measures these; without a room all tests run, which takes an hour or more. The processes that tests
start are measured too. The exit code is 1 if a room is below the limit or a test fails.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

LIMIT = 95.0
_ROOTS = {
    "runner": (Path("cog_adapt/runner"), Path("tests/cog_adapt/runner")),
    "server": (Path("cog_adapt/server"), Path("tests/cog_adapt/server")),
    "lm": (Path("cog_adapt/lm"), Path("tests/cog_adapt/lm")),
    "command": (Path("cog_adapt/command"), Path("tests/cog_adapt/command")),
    "gradient_check": (Path("gradient_check"), Path("gradient_check/tests")),
}
_SETTINGS = """\
[run]
branch = true
parallel = true
sigterm = true
patch = subprocess, _exit
data_file = {folder}/data
source = cog_adapt/runner, cog_adapt/server, cog_adapt/lm, cog_adapt/command, gradient_check
omit = gradient_check/tests/*
disable_warnings = no-data-collected, module-not-measured, already-imported
[report]
exclude_also =
    if TYPE_CHECKING:
    \\.\\.\\.$
"""


class RoomCoverage(NamedTuple):
    """The part of a room that tests reach.

    Attributes:
        name: `server/records`; the modules at the top of a root are `server`.
        reached: statements and branches.
        whole: all of them.
        missing: how many each incomplete module misses.
    """

    name: str
    reached: int
    whole: int
    missing: Mapping[str, int]

    @property
    def percent(self) -> float:
        """The share that is reached, in percent."""
        return 100.0 * self.reached / self.whole if self.whole else 100.0


def room_of(path: str) -> str | None:
    """Return the room of a source file, or None."""
    for name, (root, _) in _ROOTS.items():
        if root in Path(path).parents:
            inside = Path(path).relative_to(root).parts
            return name if len(inside) == 1 else f"{name}/{inside[0]}"
    return None


def rooms_of(report: Mapping[str, Any]) -> list[RoomCoverage]:
    """Return the rooms of a report in coverage's JSON, by name."""
    counts: dict[str, list[tuple[str, int, int]]] = defaultdict(list)
    for path, entry in report["files"].items():
        room, summary = room_of(path), entry["summary"]
        if room is not None:
            whole = summary["num_statements"] + summary["num_branches"]
            reached = summary["covered_lines"] + summary["covered_branches"]
            counts[room].append((Path(path).name, reached, whole))
    return [
        RoomCoverage(
            name,
            sum(reached for _, reached, _ in files),
            sum(whole for *_, whole in files),
            {file: whole - reached for file, reached, whole in files if whole > reached},
        )
        for name, files in sorted(counts.items())
    ]


def table_of(rooms: Iterable[RoomCoverage]) -> str:
    """Return the rooms as a table in Markdown, with the least covered modules."""
    lines = [
        f"| room | branch coverage | below {LIMIT:g} % | most is missing in |",
        "|---|--:|---|---|",
    ]
    for room in rooms:
        most = sorted(room.missing.items(), key=lambda each: -each[1])[:3]
        named = ", ".join(f"`{file}` {count}" for file, count in most)
        below = "below" if room.percent < LIMIT else ""
        lines.append(f"| {room.name} | {room.percent:.1f} % | {below} | {named} |")
    return "\n".join(lines)


def tests_of(rooms: Iterable[str]) -> list[str]:
    """Return the folders of tests for some rooms, or for all."""
    wanted = list(rooms) or list(_ROOTS)
    found = []
    for room in wanted:
        root, _, inside = room.partition("/")
        if root not in _ROOTS:
            raise SystemExit(f"there is no room {room!r}; a name is such as server/records")
        folder = _ROOTS[root][1] / inside
        found.append(str(folder if folder.is_dir() else _ROOTS[root][1]))
    return list(dict.fromkeys(found))


def _measure(tests: list[str], folder: Path) -> tuple[int, Mapping[str, Any]]:
    settings, report = folder / "coveragerc", folder / "report.json"
    settings.write_text(_SETTINGS.format(folder=folder))
    coverage = [sys.executable, "-m", "coverage"]
    named = f"--rcfile={settings}"
    ran = subprocess.run(
        [*coverage, "run", named, "-m", "pytest", "-q", "--timeout", "600", *tests],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    subprocess.run([*coverage, "combine", "-q", named], check=True)
    subprocess.run([*coverage, "json", "-q", named, "-o", str(report)], check=True)
    return ran.returncode, json.loads(report.read_text())


def main() -> int:
    """Run the tests, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rooms", nargs="*", help="such as server/records; all without any")
    parser.add_argument("--report", type=Path, help="keeps coverage's JSON: the lines missing")
    given = parser.parse_args()
    rooms = given.rooms
    tests = tests_of(rooms)
    with tempfile.TemporaryDirectory() as folder:
        code, report = _measure(tests, Path(folder))
    if given.report is not None:
        given.report.write_text(json.dumps(report))
    measured = [each for each in rooms_of(report) if not rooms or each.name in rooms]
    print(table_of(measured))
    below = [each.name for each in measured if each.percent < LIMIT]
    print(f"\nbelow {LIMIT:g} %: {', '.join(below) or 'none'}")
    return 1 if code or below else 0


if __name__ == "__main__":
    sys.exit(main())

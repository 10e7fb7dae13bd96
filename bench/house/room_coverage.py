"""Branch coverage by room: lists the rooms of both packages below 95 %.

`python -m bench.house.room_coverage server/records runner/heads` runs the tests of two rooms, and
measures these; `runner` stands for all its rooms and tests. Without a room all tests run, which
takes an hour or more. The processes that tests start are measured too. The exit code is 1 if a room
is below the limit or a test fails.
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
# Tests of a root that lie outside its folder of tests.
_BESIDE = {
    "runner": (
        *("decoders", "test_inputs_bounded.py", "test_pixels_bounded.py", "test_mistakes.py"),
        "test_labels_apart.py",
    ),
    "server": (
        *("contract", "replicate", "test_adapter_changes_reach_all.py", "test_adapters_served.py"),
        *("test_changes_reach_servers.py", "test_owner_is_asked.py", "test_runs_begin_once.py"),
        *("test_server_was_down.py", "test_waiting_work_moves.py", "test_streams.py"),
    ),
}
# An exception put into a thread that waits for a program sends the other threads of CPython 3.11
# round in a circle while a tracer is on, so that nothing ends the program.
_NEVER_END = [
    f"tests/cog_adapt/server/worker/test_cancel.py::test_a_program_{name}"
    for name in ("that_ignores_the_first_signal_is_killed", "from_before_the_prediction_lives_on")
]
# Questions are data: each is a module that is asked about, and `make exam` asks all.
_QUESTIONS = (
    "adversarial*",
    "faults_*",
    "healthy_*",
    "library_*",
    "known/*",
    "second/*",
    "second_b/*",
)
_LEFT_OUT = ("gradient_check/tests/*", *(f"gradient_check/exam/{name}" for name in _QUESTIONS))
_SETTINGS = """\
[run]
branch = true
parallel = true
sigterm = true
patch = subprocess, fork, _exit
data_file = {folder}/data
source = {sources}
omit = {left_out}
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
    """Return the tests for some rooms, or for all; those of its root if a room has no folder."""
    found: dict[str, None] = {}
    for room in list(rooms) or list(_ROOTS):
        root, _, inside = room.partition("/")
        if root not in _ROOTS or not (_ROOTS[root][0] / inside).is_dir():
            raise SystemExit(f"there is no room {room!r}; a name is such as server/records")
        folder = _ROOTS[root][1] / inside
        if inside and folder.is_dir():
            found[str(folder)] = None
        else:
            beside = (_ROOTS[root][1].parent / name for name in _BESIDE.get(root, ()))
            found.update(dict.fromkeys(map(str, (_ROOTS[root][1], *beside))))
    return list(found)


def _measure(tests: list[str], folder: Path) -> tuple[int, Mapping[str, Any]]:
    settings, report = folder / "coveragerc", folder / "report.json"
    here = Path.cwd()  # processes that tests start have other working directories
    sources = ", ".join(str(here / source) for source, _ in _ROOTS.values())
    left_out = ", ".join(str(here / pattern) for pattern in _LEFT_OUT)
    settings.write_text(_SETTINGS.format(folder=folder, sources=sources, left_out=left_out))
    coverage = [sys.executable, "-m", "coverage"]
    named = f"--rcfile={settings}"
    ran = subprocess.run(
        [
            *(*coverage, "run", named, "-m", "pytest", "-q", "--timeout", "600"),
            *("-n", "2", "--dist", "loadfile"),
            *(f"--deselect={test}" for test in _NEVER_END),
            *tests,
        ],
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
    rooms = set(given.rooms)
    tests = tests_of(given.rooms)
    with tempfile.TemporaryDirectory() as folder:
        code, report = _measure(tests, Path(folder))
    if given.report is not None:
        given.report.write_text(json.dumps(report))
    named = {each.name: {each.name, each.name.partition("/")[0]} for each in rooms_of(report)}
    measured = [each for each in rooms_of(report) if not rooms or rooms & named[each.name]]
    print(table_of(measured))
    below = [each.name for each in measured if each.percent < LIMIT]
    print(f"\nbelow {LIMIT:g} %: {', '.join(below) or 'none'}")
    return 1 if code or below else 0


if __name__ == "__main__":
    sys.exit(main())

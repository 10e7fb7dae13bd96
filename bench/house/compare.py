"""Prints how two snapshots differ, part by part: `BEFORE AFTER`; exit code 1 if they do."""

import argparse
import difflib
import sys
from pathlib import Path

from bench.house.ids import ungrouped
from bench.house.test_map import TestMap, differences

_TESTS = "tests.txt"
_MAP = Path("docs/results/house/test-map.txt")


def main() -> int:
    """Compare two snapshots. Return 0 if nothing differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--map", type=Path, default=_MAP, help="what became of each test")
    chosen = parser.parse_args()
    mapping = TestMap.read(chosen.map)
    found = 0
    for name in sorted(_names(chosen.before) | _names(chosen.after)):
        lines = _compare(name, chosen.before / name, chosen.after / name, mapping)
        found += bool(lines)
        print("\n".join([f"=== {name}: {_described(name, lines)}", *lines]))
    return int(found > 0)


def _described(name: str, lines: list[str]) -> str:
    if not lines:
        return "the same"
    if name != _TESTS:
        return "differs"
    lost = sum(line.startswith("-") for line in lines)
    return f"{lost} old ids lead to nothing, nothing leads to {len(lines) - lost} new ones"


def _names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def _compare(name: str, before: Path, after: Path, mapping: TestMap) -> list[str]:
    old, new = (path.read_text("utf-8") if path.exists() else "" for path in (before, after))
    if name == _TESTS:
        return differences(ungrouped(old), ungrouped(new), mapping)
    diff = difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=8)
    return list(diff)[2:]


if __name__ == "__main__":
    sys.exit(main())

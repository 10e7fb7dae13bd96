"""Writes what the outside can see of a tree: `--tree DIR --output DIR [PART …]`."""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench.house.commands import commands
from bench.house.documents import documents
from bench.house.ids import test_ids
from bench.house.own import own
from bench.house.routes import routes
from bench.house.settings import settings
from bench.house.telemetry import telemetry
from bench.house.tree import Tree

PARTS: dict[str, Callable[[Tree], dict[str, str]]] = {
    "tests": test_ids,
    "openapi": documents,
    "telemetry": telemetry,
    "own": own,
    "routes": routes,
    "command": commands,
    "settings": settings,
}


def main() -> int:
    """Write the parts. Return 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tree", type=Path, required=True, help="the project at one commit")
    parser.add_argument("--output", type=Path, required=True, help="a folder for the snapshot")
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; by default all")
    chosen = parser.parse_args()
    tree = Tree(chosen.tree.resolve())
    for name in chosen.parts or PARTS:
        begun = time.monotonic()
        for file, text in PARTS[name](tree).items():
            path: Path = chosen.output / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        print(f"{name}: {time.monotonic() - begun:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

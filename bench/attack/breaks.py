"""Breaks what mends findings of the red team, each mend alone, and runs the tests that name it.

    python -m bench.attack.breaks [--only H7]

Each is broken in a copy of the tree. The table in docs/results/red-team.md is what it prints.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from bench.attack.mends import BREAKS, Break
from bench.house.mutants import LEFT_BEHIND, ROOT, failing


def seen_by(broken: Break) -> str | None:
    """Return the first test that fails without the mend, or None."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=LEFT_BEHIND)
        broken.mutant.plant(tree)
        return failing(tree, (broken.tests, "-n", "0"))


def main() -> int:
    """Break each mend, and print which test sees it; fail if one is not seen."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--only", default="", help="a finding, or a part of what is broken")
    chosen = parser.parse_args().only
    unseen = 0
    print("| finding | broken | first test that fails |\n| --- | --- | --- |", flush=True)
    for each in BREAKS:
        if chosen == each.finding or chosen in each.what:
            test = seen_by(each)
            unseen += test is None
            shown = f"`{test}`" if test else "**none**"
            print(f"| {each.finding} | {each.what} | {shown} |", flush=True)
    return 1 if unseen else 0


if __name__ == "__main__":
    sys.exit(main())

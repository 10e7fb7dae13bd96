"""Plants device bugs, each alone in a copy of the tree, and runs the GPU tests on the stand-in.

    python -m bench.gpu.planted --output docs/results/standin-bugs.md

The tests are first run on a copy without a bug, where they must pass. A bug is shown to the test
that saw it the last time, by the table; where that one passes, to all of them.
"""

import argparse
import re
import shutil
import sys
import tempfile
from pathlib import Path

from bench.gpu.bugs import BUGS
from bench.house.mutants import LEFT_BEHIND, ROOT, Mutant, failing, table

TITLE = "Device bugs that the GPU tests see on the stand-in"
ORIGIN = "Written by `python -m bench.gpu.planted`; no card ran."
STAND_IN = ("-p", "tests.standin.plugin", "-n", "0", "-m", "gpu")
_NAMES = (path.name for path in (ROOT / "tests/cog_adapt/runner").glob("test_gpu*.py"))
# MiniLM last, on one device in one precision: it is there for the task's own bugs.
TESTS = tuple(
    f"tests/cog_adapt/runner/{name}" for name in sorted(_NAMES, key=lambda n: ("minilm" in n, n))
)
SHORT = ("-k", "not minilm or cuda:1-bf16")


def seen_by(bug: Mutant | None, likely: str | None = None) -> str | None:
    """Return a GPU test that fails with a bug, or None.

    Args:
        bug: what is planted; None: nothing.
        likely: a test that is asked before all of them.
    """
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=LEFT_BEHIND)
        if bug is not None:
            bug.plant(tree)
        if likely is not None and failing(tree, (*STAND_IN, likely)) == likely:
            return likely
        return failing(tree, (*STAND_IN, *TESTS, *SHORT))


def seen_before(table: Path) -> dict[str, str]:
    """Return which test saw each bug, by an earlier table; nothing where there is none."""
    if not table.exists():
        return {}
    return dict(re.findall(r"^\| (.+) \| `[^`]+` \| `(.+)` \|$", table.read_text(), re.MULTILINE))


def main() -> int:
    """Plant each bug, and write which test sees it; fail if one is not seen."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--only", default="", help="a part of the names of the bugs to plant")
    chosen = parser.parse_args()
    if (failed := seen_by(None)) is not None:
        sys.exit(f"{failed} fails without a bug. Mend it first: it would be taken for a sight.")
    before = seen_before(chosen.output) if chosen.output else {}
    rows = []
    for bug in BUGS:
        if chosen.only in bug.what:
            rows.append((bug, seen_by(bug, before.get(bug.what))))
            print(f"{bug.what}: {rows[-1][1] or 'NOT SEEN'}", flush=True)
    if chosen.output:
        chosen.output.write_text(table(TITLE, ORIGIN, "bug", rows))
    return 0 if all(test for _, test in rows) else 1


if __name__ == "__main__":
    sys.exit(main())

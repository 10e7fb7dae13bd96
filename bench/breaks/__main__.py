"""Plants breaks, each alone in a copy of the tree, and names the test that turns red.

    python -m bench.breaks --kind attack --only H7 --output docs/results/breaks.md

A break is shown to the test that saw it the last time, by the page; where that one passes, to all
tests of its kind, or to those that the break names.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.breaks.kinds import KINDS, BreakKind
from bench.breaks.planting import ROOT, Break, seen_by
from bench.breaks.table import NONE, NOT_YET, Rows, seen_before, write

PAGE = ROOT / "docs" / "results" / "breaks.md"


def main() -> int:
    """Plant breaks; fail where one that must be seen is not."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    usual = [name for name, kind in KINDS.items() if kind.must_be_seen]
    parser.add_argument("--kind", nargs="+", choices=[*KINDS], default=usual)
    parser.add_argument("--only", nargs="+", default=[""], help="findings, or parts of names")
    parser.add_argument("--modules", type=int, default=30, help="breaks of a kind that is drawn")
    parser.add_argument("--seed", type=int, default=1, help="that these are drawn by")
    parser.add_argument("--list", action="store_true", help="print names, plant nothing")
    parser.add_argument("--output", type=Path, help="the page whose rows are written anew")
    chosen = parser.parse_args()
    planted = {name: KINDS[name].breaks(chosen.modules, chosen.seed) for name in chosen.kind}
    if chosen.list:
        print(*(f"{kind}: {each.name}" for kind in planted for each in planted[kind]), sep="\n")
        return 0
    unseen = 0
    for name, breaks in planted.items():
        before = seen_before(chosen.output or PAGE, name)
        rows = _planted(KINDS[name], breaks, before, chosen.only)
        if chosen.output:
            write(chosen.output, {name: rows})
        unseen += KINDS[name].must_be_seen and any(shown == NONE for _, shown in rows)
    return 1 if unseen else 0


def _planted(
    kind: BreakKind, breaks: Sequence[Break], before: dict[str, str], only: Sequence[str]
) -> Rows:
    """Plant what is asked for, and keep what the page says of the others."""
    rows = []
    for each in breaks:
        shown = before.get(each.name, NOT_YET)
        if any(part == each.finding or part in each.what for part in only):
            likely = shown if "::" in shown else None
            shown = seen_by(each, kind.suite, likely) or NONE
            print(f"{each.name}: {shown}", flush=True)
        rows.append((each, shown))
    return rows


if __name__ == "__main__":
    sys.exit(main())

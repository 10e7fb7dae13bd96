"""Plants breaks, each alone in a copy of the tree, and names the test that turns red.

    python -m bench.breaks --kind attack --only H7 --output docs/results/breaks.md

A break is first shown to the test that caught it last time, by the page; if that one passes, to all
tests of its kind, or to those that the break names.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.breaks.kinds import KINDS
from bench.breaks.planting import ROOT, Break, seen_by
from bench.breaks.table import NONE, NOT_YET, seen_before, write

PAGE = ROOT / "docs" / "results" / "breaks.md"


def main() -> int:
    """Plant breaks; fail if one that must be caught is not."""
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
    return max(_plant_all(kind, planted[kind], chosen.only, chosen.output) for kind in planted)


def _plant_all(
    name: str, breaks: Sequence[Break], only: Sequence[str], output: Path | None
) -> bool:
    """Plant the chosen breaks; return whether one that must be caught is not."""
    kind, before = KINDS[name], seen_before(output or PAGE, name)
    rows = {each: before.get(each.name, NOT_YET) for each in breaks}
    asked = [e for e in breaks if any(part == e.finding or part in e.what for part in only)]
    for each in asked:
        likely = rows[each] if "::" in rows[each] else None
        try:
            rows[each] = seen_by(each, kind.suite, likely) or NONE
        except ValueError as error:
            print(error)
            rows[each] = NONE
        print(f"{each.name}: {rows[each]}", flush=True)
        if output:
            write(output, {name: [*rows.items()]})
    return kind.must_be_seen and any(rows[each] == NONE for each in asked)


if __name__ == "__main__":
    sys.exit(main())

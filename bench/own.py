"""Models of one's own beside what one would write by hand: lines, scores and seconds, in one run.

    make kinds && apt-get install dataset-fashion-mnist espeak-ng
    python -m bench.own --output docs/results/own.md

For each kind and seed the two ways adapt to the same rows, one after the other, in an order that
changes, and answer the same held-out inputs. Whole files were counted when a new user wrote them
for the first interface; `own_models/lines.py` says what a line with code is now.
"""

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers.utils import logging

from bench.own_models import image, speech, tables, text
from bench.own_models.contest import Kind, Outcome
from bench.own_models.lines import code_lines, lines_beside_inputs
from bench.report import environment
from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.devices.device import choose_precision

ROOT = Path(__file__).parents[1]
KINDS = {
    "text": text.KIND,
    "text-folder": text.FOLDER,
    "image": image.KIND,
    "tabular": tables.NUMBERS,
    "tabular-classes": tables.CLASSES,
    "speech": speech.KIND,
}
SEEDS = 5
MORE_SECONDS, MOST_BELOW = 0.3, 0.015
_COLUMNS = (
    *("kind", "task, door: lines", "by hand", "scored", "before", "after", "by hand"),
    *("seconds", "by hand", "goals"),
)


@dataclass(frozen=True)
class Result:
    """What the two ways gave, seed by seed."""

    ours: Sequence[Outcome]
    hand: Sequence[Outcome]

    def median_seconds(self) -> tuple[float, float]:
        """Return ours and those by hand."""
        ours, hand = (statistics.median(o.seconds for o in side) for side in (self.ours, self.hand))
        return ours, hand

    def mean_scores(self) -> tuple[float, float, float]:
        """Return before, after, and by hand."""
        before = statistics.fmean(outcome.before for outcome in self.ours)
        after, hand = (statistics.fmean(o.after for o in side) for side in (self.ours, self.hand))
        return before, after, hand


def main() -> None:
    """Run what is installed, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_Plain)
    parser.add_argument("--output", type=Path, help="write the table here as Markdown")
    parser.add_argument("--only", nargs="*", choices=[*KINDS], default=[*KINDS])
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--threads", type=int, default=2, help="of each torch operation")
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    rows = [row(KINDS[name], chosen.seeds) for name in chosen.only]
    written = document(rows, chosen.seeds)
    print(written)
    if chosen.output:
        chosen.output.write_text(written, "utf-8")


class _Plain(argparse.RawDescriptionHelpFormatter):
    pass


def row(kind: Kind, seeds: int) -> tuple[str, ...]:
    """Run a kind where all that it needs is installed, and say what came of it."""
    folder = ROOT / kind.folder
    lines = f"{code_lines(folder / 'task.py')}, {lines_beside_inputs(folder / 'predict.py')}"
    about = (kind.title, lines, kind.by_hand, kind.scale)
    if kind.missing:
        return (*about, *[""] * 5, f"not installed: {', '.join(kind.missing)}")
    result = run(kind, seeds)
    scores = (f"{score:.3f}" for score in result.mean_scores())
    seconds = (f"{each:.2f}" for each in result.median_seconds())
    return (*about, *scores, *seconds, verdict(kind, result))


def run(kind: Kind, seeds: int) -> Result:
    """Let the two ways take turns; the first to go changes with the seed."""
    results: tuple[list[Outcome], list[Outcome]] = ([], [])
    with tempfile.TemporaryDirectory() as scratch, kind.ways(Path(scratch)) as ways:
        for seed, side in ((s, (s + turn) % 2) for s in range(seeds) for turn in (0, 1)):
            results[side].append(ways[side](seed))
    return Result(*results)


def verdict(kind: Kind, result: Result) -> str:
    """Say whether the goals are met."""
    ours, hand = result.median_seconds()
    _, after, other = result.mean_scores()
    most = hand * kind.most_times + (MORE_SECONDS if kind.most_times == 1 else 0)
    missed = [
        *([f"seconds, at most {most:.2f}"] if ours > most else []),
        *([f"score, at least {other - MOST_BELOW:.3f}"] if after < other - MOST_BELOW else []),
    ]
    return f"MISSED: {'; '.join(missed)}" if missed else "met"


def document(rows: Sequence[Sequence[str]], seeds: int) -> str:
    """Return the table, and where it was made."""
    table = [_COLUMNS, ("---",) * len(_COLUMNS), *rows]
    lines = ["| " + " | ".join(cells) + " |" for cells in table]
    facts = environment(choose_precision(RunnerSettings.from_environment()))
    where = ", ".join(f"{name} {value}" for name, value in facts.items())
    return "\n".join(["# Models of one's own", "", *_ABOUT, "", *lines, "", where, *_seeds(seeds)])


def _seeds(seeds: int) -> list[str]:
    return [f"Seeds of each row: {seeds}.", ""]


_ABOUT = (
    "Made by `python -m bench.own --output docs/results/own.md`. Scores are means over paired",
    "seeds on held-out data, seconds are medians of the adaptation alone. Goals: seconds at most",
    f"those by hand and {MORE_SECONDS} (images: twice those by hand), a score at most {MOST_BELOW}",
    "below. Lines are those with code; a door's are those beside its inputs.",
)


if __name__ == "__main__":
    main()

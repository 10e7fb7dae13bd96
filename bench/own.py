"""One's own models beside code written by hand: lines, scores and seconds.

    make kinds && apt-get install dataset-fashion-mnist espeak-ng fonts-isabella
    python -m bench.own --output docs/results/own.md

For each kind and seed the two ways adapt to the same rows, one after the other, in an order that
changes, and answer the same held-out inputs. Each pair is stored in a JSON file by the table, so
an interrupted run continues; `--again` measures the kinds of `--only` anew. Whole files were
counted when a new user wrote them for the first interface; `own_models/lines.py` defines a line
with code now.
"""

import argparse
import os
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
from transformers.utils import logging

from bench.own_models import image, letters, lm, speech, tables, text
from bench.own_models.contest import Kind, Outcome, threads
from bench.own_models.lines import code_lines, lines_beside_inputs
from bench.own_models.records import Pair, Records
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
    "lm": lm.KIND,
    "diffusion": letters.KIND,
}
SEEDS = 5
MORE_SECONDS, MOST_BELOW = 0.3, 0.015
_COLUMNS = (
    *("kind", "task, predictor: lines", "by hand", "scored", "before", "after", "by hand"),
    *("seconds", "by hand", "CPU", "by hand", "seeds", "threads", "load", "goals"),
)


def main() -> None:
    """Measure all installed kinds without records, and write the table of all kinds."""
    chosen = _arguments()
    os.environ["OMP_NUM_THREADS"] = str(chosen.threads)  # of the model thread, where both ways run
    torch.set_num_threads(1)
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    kept = chosen.output.with_suffix(".json") if chosen.output else None
    records = Records(kept, chosen.only if chosen.again else ())
    for name in chosen.only:
        measure(name, KINDS[name], chosen.seeds, records)
        if chosen.output:
            chosen.output.write_text(document(records), "utf-8")
    print(document(records))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_Plain)
    parser.add_argument("--output", type=Path, help="write the table here as Markdown")
    parser.add_argument("--only", nargs="*", choices=[*KINDS], default=[*KINDS])
    parser.add_argument("--again", action="store_true", help="forget what is known of these")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--threads", type=int, default=2, help="of each torch operation")
    return parser.parse_args()


class _Plain(argparse.RawDescriptionHelpFormatter):
    pass


def measure(name: str, kind: Kind, seeds: int, records: Records) -> None:
    """Let the two ways take turns on the seeds without records; the first one alternates."""
    known = {pair.seed for pair in records.of(name)}
    wanted = [s for s in range(kind.first_seed, kind.first_seed + seeds) if s not in known]
    if kind.missing or not wanted:
        return
    with tempfile.TemporaryDirectory() as scratch, kind.ways(Path(scratch)) as ways:
        for seed in wanted:
            sides = (seed % 2, 1 - seed % 2)
            found = {side: ways[side](seed) for side in sides}
            load = os.getloadavg()[0]
            records.add(name, Pair(seed, found[0], found[1], load, threads()))


def row(name: str, kind: Kind, records: Records) -> tuple[str, ...]:
    """Return a row about a kind."""
    folder = ROOT / kind.folder
    lines = f"{code_lines(folder / 'task.py')}, {lines_beside_inputs(folder / 'predict.py')}"
    about = (kind.title, lines, kind.by_hand, kind.scale)
    pairs = records.of(name)
    if not pairs:
        return (*about, *[""] * 7, "0", "", "", _why_not(kind))
    before = statistics.fmean(pair.ours.before for pair in pairs)
    scores = (f"{score:.3f}" for score in (before, *_scores(pairs)))
    seconds = (f"{each:.2f}" for each in _seconds(pairs))
    cpu = ("" if each is None else f"{each:.2f}" for each in _cpu(pairs))
    loads = [pair.load for pair in pairs]
    load = f"{min(loads):.0f} to {max(loads):.0f}"
    used = "/".join(sorted({str(pair.threads) for pair in pairs}))
    how = (str(len(pairs)), used, load)
    return (*about, *scores, *seconds, *cpu, *how, verdict(kind, pairs))


def verdict(kind: Kind, pairs: Sequence[Pair]) -> str:
    """Say whether the goals are met, by the clock; CPU time shows the effect of other load."""
    after, other = _scores(pairs)
    (ours, hand), (cpu, hand_cpu) = _seconds(pairs), _cpu(pairs)
    missed = []
    if ours > _most(kind, hand):
        missed = [f"seconds, at most {_most(kind, hand):.2f}"]
        if cpu is not None and hand_cpu is not None and cpu <= _most(kind, hand_cpu):
            missed = [f"{missed[0]} (met by CPU time)"]
    if after < other - MOST_BELOW:
        missed += [f"score, at least {other - MOST_BELOW:.3f}"]
    return f"MISSED: {'; '.join(missed)}" if missed else "met"


def _most(kind: Kind, seconds: float) -> float:
    return seconds * kind.most_times + (MORE_SECONDS if kind.most_times == 1 else 0)


def document(records: Records) -> str:
    """Return the table of all kinds, and facts about the machine."""
    rows = [row(name, kind, records) for name, kind in KINDS.items()]
    table = [_COLUMNS, ("---",) * len(_COLUMNS), *rows]
    lines = ["| " + " | ".join(cells) + " |" for cells in table]
    facts = environment(choose_precision(RunnerSettings.from_environment()))
    apart = ("load_1min", "threads")  # of this process; rows may come from several runs
    where = ", ".join(f"{name} {value}" for name, value in facts.items() if name not in apart)
    return "\n".join(
        ["# Your own models, beside adaptations by hand", "", *_ABOUT, "", *lines, "", where, ""]
    )


def _why_not(kind: Kind) -> str:
    missing = kind.missing
    return f"not installed: {', '.join(missing)}" if missing else "not measured"


def _seconds(pairs: Sequence[Pair]) -> tuple[float, float]:
    """Return the median of our way and of the one by hand."""
    ours, hand = (statistics.median(each.seconds for each in side) for side in _sides(pairs))
    return ours, hand


def _cpu(pairs: Sequence[Pair]) -> tuple[float | None, float | None]:
    """Return the medians of CPU time; None if it was not measured."""
    known = ([each.cpu for each in side if each.cpu is not None] for side in _sides(pairs))
    ours, hand = (statistics.median(side) if side else None for side in known)
    return ours, hand


def _scores(pairs: Sequence[Pair]) -> tuple[float, float]:
    """Return the mean of our way and of the one by hand."""
    ours, hand = (statistics.fmean(each.after for each in side) for side in _sides(pairs))
    return ours, hand


def _sides(pairs: Sequence[Pair]) -> tuple[list[Outcome], list[Outcome]]:
    return [pair.ours for pair in pairs], [pair.hand for pair in pairs]


_ABOUT = (
    "The page is written by `python -m bench.own --output docs/results/own.md`; `own.json` has",
    "each pair. Scores are means over paired seeds on held-out data; seconds are medians of the",
    f"adaptation alone, by the clock. Goals: at most {MORE_SECONDS} seconds more than by hand",
    f"(images: at most twice the seconds), a score at most {MOST_BELOW} below. A row of fewer than",
    f"{SEEDS} seeds is no proof. Lines have code; a predictor's are those beside its inputs.",
    "Load is the machine's: the two ways took turns, so load affects both, but not equally.",
    "CPU is seconds of the process, which other load changes little; ours are those of",
    "a whole request with one input: reading the rows, and the answers before and after, included.",
    f"The tables' seeds begin at {tables.NUMBERS.first_seed}, since the penalties of numbers and",
    "the weights of averaged regressions were chosen on draws of the first seeds; the 207 men are",
    "the same, drawn into other parts. Both ways compute on the same thread of one process.",
)


if __name__ == "__main__":
    main()

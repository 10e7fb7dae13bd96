"""What choosing between a closed form and gradients is worth, on sets that took no part.

    python -m bench.quality_choice --record 2000 --output docs/results/quality-choice.json

trains on splits of `bench/sets/unseen` for some seconds (0: not at all), all rows of a seed before
the next, and judges what is kept in `.data/left-out/trainings`. Which average of the two it is, is
chosen on all groups of sets but the one that is judged. A split is judged where it has fewer than
30 examples and labels with two.
"""

import argparse
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from bench.left_out.cases import rows_of
from bench.left_out.choice import group_of
from bench.left_out.rules import ALWAYS, BEFORE, BLENDS, RULE, Blend, Judged
from bench.left_out.trainings import Recorder, Training, in_turn, kept, path_of
from bench.quality_scores import Interval, Scores, score
from bench.report import Columns, Report, arguments, console
from bench.sets import unseen
from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.devices.device import choose_precision
from cog_adapt.runner.heads.decision import BASE, CLOSED
from cog_adapt.runner.model.loaded_model import LoadedModel
from task import TextClassification

_FEW = 30  # examples; from there on `auto` chooses as it did
_SHIPPED = Blend()

COLUMNS: Columns = {
    "splits": str,
    "contestant": str,
    "count": str,
    "accuracy": "{:.3f}".format,
    "log loss": "{:.3f}".format,
    "calibration error": "{:.3f}".format,
    "accuracy - chosen by folds": str,
    "log loss - chosen by folds": str,
    "log loss above zero-shot's": "{:.1%}".format,
    "seconds of steps": "{:.1f}".format,
}


@dataclass(frozen=True)
class Split:
    """A judged split.

    Attributes:
        set_name: of its set.
        digest: of its set.
        group: of its set.
        kind: of its row, as in `8 noise`.
        scores: by contestant.
        averages: scores of each average that may be chosen: always, and where the folds choose it.
        seconds: of the steps that a contestant takes, where it takes some.
    """

    set_name: str
    digest: str
    group: str
    kind: str
    scores: dict[str, Scores]
    averages: Mapping[str, tuple[Scores, Scores]]
    seconds: Mapping[str, float]


def judged(training: Training) -> Split:
    """Score every contestant on a split."""

    def scored(probabilities: Tensor) -> Scores:
        labels = [str(at) for at in range(probabilities.shape[1])]
        return score(probabilities, labels, [labels[at] for at in training.wanted.tolist()], 0.0)

    split = Judged(training)
    scores = {name: scored(found) for name, found in split.singles().items()}
    before, decision = split.before()
    scores[BEFORE] = scored(before)
    averages = {}
    for name, blend in BLENDS.items():
        always, rule, chosen = split.averaged(blend)
        averages[name] = scored(always), scored(rule)
        if blend == _SHIPPED:
            shipped = averages[name]
            is_closed = chosen.chosen == CLOSED
    scores |= {ALWAYS: shipped[0], RULE: shipped[1]}
    folds = sum(fold.moved.seconds for fold in training.folds)
    both = folds + training.whole.seconds
    seconds = {
        BEFORE: folds if decision.chosen in (BASE, CLOSED) else both,
        ALWAYS: both,
        RULE: folds if is_closed else both,
    }
    row = training.row
    kind = row.name.partition(":")[2]
    known = row.set_name, training.digest, group_of(row), kind
    return Split(*known, scores, averages, seconds)


def choose(splits: Sequence[Split]) -> dict[str, str]:
    """Add what is chosen on all other groups to the scores of each; return the choices."""
    choices = {}
    for group in sorted({split.group for split in splits}):
        others = [split for split in splits if split.group != group]
        own = [split for split in splits if split.group == group]
        for place, name in enumerate((ALWAYS, RULE)):
            losses = {blend: _loss(others, blend, place) for blend in BLENDS}
            best = min(losses, key=lambda blend: losses[blend])
            choices[f"{name}, chosen without {group}"] = best
            _add(own, f"{name}, left out", best, place)
    return choices


def _add(splits: Sequence[Split], name: str, blend: str, place: int) -> None:
    for split in splits:
        split.scores[name] = split.averages[blend][place]


def _loss(splits: Sequence[Split], blend: str, place: int) -> float:
    return statistics.fmean(split.averages[blend][place].log_loss for split in splits)


def report(splits: Sequence[Split], choices: Mapping[str, str]) -> Report:
    """Sum up all splits, kinds of rows and groups of sets."""
    parts = {"all": splits}
    for kind in sorted({split.kind for split in splits}):
        parts[kind] = [split for split in splits if split.kind == kind]
    for group in sorted({split.group for split in splits}):
        parts[group] = [split for split in splits if split.group == group]
    rows = [row for title, part in parts.items() for row in _rows(title, part)]
    digests = {f"{split.set_name} sha256": split.digest for split in splits}
    title = "A closed form, gradients and their average on sets that were left out"
    return Report(title, COLUMNS, rows, {**choices, **digests})


def _rows(title: str, splits: Sequence[Split]) -> Iterator[dict[str, object]]:
    for name in splits[0].scores:
        own = [split.scores[name] for split in splits]
        before = [split.scores[BEFORE] for split in splits]
        zero = [split.scores["zero-shot"] for split in splits]
        pairs = list(zip(own, before, strict=True))
        seconds = [split.seconds[name] for split in splits if name in split.seconds]
        yield {
            "splits": title,
            "contestant": name,
            "count": len(splits),
            "accuracy": statistics.fmean(s.accuracy for s in own),
            "log loss": statistics.fmean(s.log_loss for s in own),
            "calibration error": statistics.fmean(s.calibration_error for s in own),
            "accuracy - chosen by folds": Interval.of([a.accuracy - b.accuracy for a, b in pairs]),
            "log loss - chosen by folds": Interval.of([a.log_loss - b.log_loss for a, b in pairs]),
            "log loss above zero-shot's": statistics.fmean(
                s.log_loss > z.log_loss for s, z in zip(own, zero, strict=True)
            ),
            "seconds of steps": statistics.fmean(seconds) if seconds else None,
        }


def record(seeds: Sequence[int], seconds: float) -> None:
    """Train on splits that are not kept, until the time is over."""
    end = time.monotonic() + seconds
    recorder = Recorder(LoadedModel(TextClassification(), RunnerSettings.from_environment()))
    for row, seed in in_turn(unseen.NAMES, seeds):
        if time.monotonic() > end:
            return
        if not path_of(row, seed).exists() and recorder.record(row, seed):
            console.print(f"{row.name}, split {seed}", highlight=False)


def main() -> None:
    """Record trainings for a while, and judge all that there are."""
    chosen = arguments(main.__doc__, _options)
    seeds = range(chosen.splits)
    if chosen.record:
        record(seeds, chosen.record)
    found = kept(rows_of(unseen.NAMES), seeds)
    splits = [judged(each) for each in found if each.folds and len(each.targets) < _FEW]
    choices = choose(splits)
    precision = choose_precision(RunnerSettings.from_environment())
    report(splits, choices).publish(precision, chosen.output)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--splits", type=int, default=1, help="of each row (1)")
    parser.add_argument("--record", type=float, default=0.0, help="seconds to train for (0)")


if __name__ == "__main__":
    main()

"""What `auto`'s rules of choosing and averaging are worth, on sets that took no part.

    python -m bench.quality choice --record 2000 --output docs/results/quality-choice.json

trains on splits of `bench/sets/unseen` for some seconds (0: not at all), all rows of a seed before
the next, and judges the trainings in `.data/left-out/trainings`. Scores are stored by the output,
a line a split. The rule that replaces `auto`'s own is chosen on all groups of sets except the one
that is judged.
"""

import argparse
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench.quality.cases import rows_of
from bench.quality.goals import LEAST_DIFFERENCE
from bench.quality.judgement import CHOSEN, Judgement, by_set, choose, judge, mean, read, write
from bench.quality.pipeline import Pipeline
from bench.quality.recorder import Recorder
from bench.quality.rules import AUTO, HEAD, REGIMES
from bench.quality.scores import Interval, are_below
from bench.quality.trainings import LORA, in_turn, kept, path_of
from bench.report import Columns, Report, console
from bench.sets import unseen
from bench.sets.rows import Row
from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.model.loaded_model import LoadedModel
from task import TextClassification

LINES = Path(__file__).parents[2] / "docs" / "results" / "quality-choice.jsonl"
_ZERO, _CENTROIDS = "zero-shot", "centroids without names"
SHOWN = (_ZERO, _CENTROIDS, "centroids", "logistic", HEAD, LORA, AUTO, CHOSEN)
"""Contestants of the report."""

COLUMNS: Columns = {
    "splits": str,
    "contestant": str,
    "sets": str,
    "count": str,
    "accuracy": "{:.3f}".format,
    "log loss": "{:.3f}".format,
    "calibration error": "{:.3f}".format,
    "of it by chance": "{:.3f}".format,
    "accuracy - auto": str,
    "log loss - auto": str,
    "log loss above zero-shot's": "{:.1%}".format,
    "rows below the better of LoRA and centroids": str,
    "seconds of steps": "{:.1f}".format,
}


def report(judgements: Sequence[Judgement], choices: Mapping[str, str]) -> Report:
    """Sum up regimes of `auto`, kinds of rows and groups of sets."""
    parts = {"all": list(judgements)}
    parts |= {regime: [j for j in judgements if j.regime == regime] for regime in REGIMES}
    for field in ("kind", "group"):
        for value in sorted({getattr(j, field) for j in judgements}):
            parts[value] = [j for j in judgements if getattr(j, field) == value]
    rows = [row for title, part in parts.items() if part for row in _rows(title, part)]
    counted = {"splits": len(judgements), "rows": len({j.row for j in judgements})}
    digests = {f"{j.set_name} sha256": j.digest for j in judgements}
    title = "Rules of choosing and averaging on sets that were left out"
    return Report(title, COLUMNS, rows, {**counted, **choices, **digests})


def _rows(title: str, part: Sequence[Judgement]) -> Iterator[dict[str, object]]:
    for name in SHOWN:
        yield {
            "splits": title,
            "contestant": name,
            "sets": len({j.set_name for j in part}),
            "count": len(part),
            "accuracy": mean(part, name, "accuracy"),
            "log loss": mean(part, name, "log_loss"),
            "calibration error": mean(part, name, "calibration_error"),
            "of it by chance": mean(part, name, "by_chance"),
            "accuracy - auto": difference(part, name, "accuracy"),
            "log loss - auto": difference(part, name, "log_loss"),
            "log loss above zero-shot's": statistics.fmean(
                j.figures[name].log_loss > j.figures[_ZERO].log_loss for j in part
            ),
            "rows below the better of LoRA and centroids": below(part, name),
            "seconds of steps": mean(part, name, "seconds"),
        }


def difference(judgements: Sequence[Judgement], name: str, field: str) -> Interval:
    """Return a figure relative to `auto`, with its interval over sets: splits of one are alike."""
    own, auto = (by_set(judgements, each, field) for each in (name, AUTO))
    return Interval.of([own[set_name] - auto[set_name] for set_name in own])


def below(judgements: Sequence[Judgement], name: str) -> str:
    """Say how many rows are below the better of LoRA and centroids by .015 and two errors.

    One split has no error, and decides nothing.
    """
    rows: dict[str, list[Judgement]] = {}
    for each in judgements:
        rows.setdefault(each.row, []).append(each)
    several = [row for row in rows.values() if len(row) > 1]
    return f"{sum(_is_below(row, name) for row in several)} of {len(several)}"


def _is_below(row: Sequence[Judgement], name: str) -> bool:
    def accuracies(contestant: str) -> list[float]:
        return [each.figures[contestant].accuracy for each in row]

    better = max(map(accuracies, (LORA, _CENTROIDS)), key=statistics.fmean)
    found = [own - other for own, other in zip(accuracies(name), better, strict=True)]
    return are_below(found, LEAST_DIFFERENCE)


def pending(turns: Sequence[tuple[Row, int]], lines: Path) -> Iterator[tuple[Row, int]]:
    """Yield the splits that have neither scores nor a stored training."""
    scored = {(each.row, each.seed) for each in read(lines)}
    for row, seed in turns:
        if (row.name, seed) not in scored and not path_of(row, seed).exists():
            yield row, seed


def record(lines: Path, seeds: Sequence[int], seconds: float) -> None:
    """Train on pending splits until the time is over."""
    end = time.monotonic() + seconds
    recorder = Recorder(LoadedModel(TextClassification(), RunnerSettings.from_environment()))
    for row, seed in pending(in_turn(unseen.NAMES, seeds), lines):
        if time.monotonic() > end:
            return
        if recorder.record(row, seed):
            console.print(f"{row.name}, split {seed}", highlight=False)


def judged(lines: Path, seeds: Sequence[int]) -> list[Judgement]:
    """Judge the stored trainings that have no line yet, and return all.

    Lines are written as they come. After a change of rules, begin with another file.
    """
    found = {(each.row, each.seed): each for each in read(lines)}
    for training in kept(rows_of(unseen.NAMES), seeds):
        key = training.case.row.name, training.case.seed
        if key not in found:
            found[key] = judge(training)
            write([*found.values()], lines)
    return [*found.values()]


def run(chosen: argparse.Namespace, path: Path) -> Sequence[Report]:
    """Record trainings for a while, and judge all that exist."""
    seeds = range(chosen.splits)
    if chosen.record:
        record(path, seeds, chosen.record)
    found = read(chosen.records) if chosen.quick else judged(path, seeds)
    return [report(*choose(found))]


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--record", type=float, default=0.0, help="seconds to train for (0)")


PIPELINE = Pipeline(__doc__, 20, LINES, _options, run)

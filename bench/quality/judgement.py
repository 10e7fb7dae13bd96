"""Scores of every rule on splits with stored trainings, and a choice that leaves groups out.

Scores are a JSON line a split, so that they can be committed and judged again without a training.
"""

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bench.quality.cases import group_of
from bench.quality.rules import AUTO, REGIMES, Judged
from bench.quality.scores import calibration_error, score_classes
from bench.quality.trainings import Training
from gradient_check.phases.randomness import generator

CHOSEN = "chosen on other groups"
_DRAWS = 20  # of right and wrong answers, for what chance makes of a calibration error
_DIGITS = 4


@dataclass(frozen=True)
class Figures:
    """The figures of a rule on a split.

    Attributes:
        accuracy: share of test texts whose most probable label is right.
        log_loss: mean over test texts, in nats.
        calibration_error: expected calibration error of the most probable label.
        by_chance: the calibration error that correct probabilities would have on so few
            texts.
        seconds: CPU time of its steps.
    """

    accuracy: float
    log_loss: float
    calibration_error: float
    by_chance: float
    seconds: float


@dataclass(frozen=True)
class Judgement:
    """The figures of all rules on a split.

    Attributes:
        row: its name, as in `urgency:8 noise`.
        seed: of the split.
        digest: of the set.
        group: of the set; a rule is chosen on all others.
        regime: which rule of `auto` answers the split.
        figures: by contestant and rule.
        rules: names of the rules that may be chosen; the others are contestants.
    """

    row: str
    seed: int
    digest: str
    group: str
    regime: str
    figures: Mapping[str, Figures]
    rules: tuple[str, ...]

    @property
    def set_name(self) -> str:
        """The name of the set."""
        return self.row.partition(":")[0]

    @property
    def kind(self) -> str:
        """The kind of the row, as in `8 noise`."""
        return self.row.partition(":")[2]


def judge(training: Training) -> Judgement:
    """Score every contestant and every rule on a split."""
    split, case = Judged(training), training.case
    singles, rules = split.singles(), split.rules()
    return Judgement(
        row=case.row.name,
        seed=case.seed,
        digest=case.digest,
        group=group_of(case.row),
        regime=split.regime,
        figures={
            name: figures_of(answers, case.wanted, split.seconds(name))
            for name, answers in {**singles, **rules}.items()
        },
        rules=tuple(rules),
    )


def figures_of(probabilities: Tensor, wanted: Tensor, seconds: float) -> Figures:
    """Score probabilities (M, K) against class numbers (M,)."""
    scores = score_classes(probabilities, wanted, seconds)
    return Figures(
        accuracy=scores.accuracy,
        log_loss=scores.log_loss,
        calibration_error=scores.calibration_error,
        by_chance=error_by_chance(probabilities),
        seconds=seconds,
    )


def error_by_chance(probabilities: Tensor) -> float:
    """Return the mean calibration error if each answer is right as often as (M, K) say.

    Few texts in a bin are right more or less often than their mean probability by chance, which
    makes the error of answers that are calibrated larger than 0.
    """
    confidences = probabilities.max(1).values.double()
    drawn = torch.rand(_DRAWS, len(confidences), generator=generator(0, "by chance"))
    right = (drawn < confidences).tolist()
    sure = confidences.tolist()
    return statistics.fmean(calibration_error(sure, each) for each in right)


def choose(judgements: Sequence[Judgement]) -> tuple[list[Judgement], dict[str, str]]:
    """Add, in each regime, the rule with the least log loss on all other groups, as CHOSEN.

    A set has the same weight for any number of splits. A regime of only one group keeps
    `auto`'s own rule.

    Returns:
        The judgements, and the rule that was chosen for each regime and group.
    """
    choices = {
        (regime, group): _best([j for j in own if j.group != group])
        for regime in REGIMES
        if (own := [j for j in judgements if j.regime == regime])
        for group in sorted({j.group for j in own})
    }
    added = [
        replace(j, figures={**j.figures, CHOSEN: j.figures[choices[j.regime, j.group]]})
        for j in judgements
    ]
    return added, {f"{regime}, {group}": rule for (regime, group), rule in choices.items()}


def _best(others: Sequence[Judgement]) -> str:
    if not others:
        return AUTO
    rules = [rule for rule in others[0].rules if all(rule in j.figures for j in others)]
    return min(rules, key=lambda rule: mean(others, rule, "log_loss"))


def mean(judgements: Sequence[Judgement], name: str, field: str) -> float:
    """Return the mean over sets of the mean of a figure over a set's splits."""
    return statistics.fmean(by_set(judgements, name, field).values())


def by_set(judgements: Sequence[Judgement], name: str, field: str) -> dict[str, float]:
    """Return the mean of a figure over the splits of each set."""
    found: dict[str, list[float]] = {}
    for each in judgements:
        found.setdefault(each.set_name, []).append(getattr(each.figures[name], field))
    return {set_name: statistics.fmean(values) for set_name, values in found.items()}


def read(path: Path) -> list[Judgement]:
    """Read a file of judgements; return none without a file."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return [_judgement(json.loads(line)) for line in lines]


def _judgement(plain: dict[str, Any]) -> Judgement:
    figures = {name: Figures(*values) for name, values in plain["figures"].items()}
    return Judgement(**{**plain, "figures": figures, "rules": tuple(plain["rules"])})


def write(judgements: Sequence[Judgement], path: Path) -> None:
    """Write a line for each, by row and seed."""
    ordered = sorted(judgements, key=lambda each: (each.row, each.seed))
    path.write_text("".join(f"{json.dumps(_plain(each))}\n" for each in ordered), "utf-8")


def _plain(judgement: Judgement) -> dict[str, object]:
    rounded = {
        name: [round(value, _DIGITS) for value in asdict(figures).values()]
        for name, figures in judgement.figures.items()
    }
    return {**asdict(judgement), "figures": rounded}

"""A contestant's answers to a split of texts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from bench.data import Split
from bench.quality.scores import Scores, score
from cog_adapt.runner.config import Recipe


@dataclass(frozen=True)
class Outcome:
    """The probabilities (N, labels) of a split's test texts, and the seconds of the adaptation."""

    labels: Sequence[str]
    probabilities: Tensor
    seconds: float


Contestant = Callable[[Split, Recipe], Outcome]
"""Adapts to a split; a recipe's steps and seed apply to contestants that take steps."""


def scored(contestant: Contestant) -> Callable[[Split, Recipe], Scores]:
    """Return the contestant with scores in place of probabilities."""

    def adapt(split: Split, recipe: Recipe) -> Scores:
        outcome = contestant(split, recipe)
        targets = [example.target for example in split.test]
        return score(outcome.probabilities, outcome.labels, targets, outcome.seconds)

    return adapt

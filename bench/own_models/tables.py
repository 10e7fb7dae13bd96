"""Tables, by hand: scikit-learn's ridge and logistic regression of the scaled columns."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bench.own_models import patients
from bench.own_models.contest import (
    Kind,
    Outcome,
    Score,
    Way,
    accuracy,
    asked,
    by_hand,
    on_model_thread,
    runner_of,
)
from cog_adapt import ModelRunner, Recipe, Request
from examples.tabular.network import COLUMNS
from examples.tabular.task import Table

_KNOWN, _HIGH = 64, 140.0
_FIRST_SEED = 1000  # the penalties of numbers were chosen by looking at draws of the first seeds
_PENALTIES = np.logspace(-2, 3, 20)
Rows = Sequence[Mapping[str, Any]]


@contextmanager
def numbers(scratch: Path) -> Iterator[tuple[Way, Way]]:
    """Give the two ways to predict the progress of 64 men's illness as a number."""
    make = lambda: make_pipeline(StandardScaler(), RidgeCV(_PENALTIES))  # noqa: E731
    with runner_of(Table(), scratch) as runner:
        yield _ways(runner, lambda row: row["target"], _explained, make)


@contextmanager
def classes(scratch: Path) -> Iterator[tuple[Way, Way]]:
    """Give the two ways to predict whether the illness has progressed far."""
    make = lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))  # noqa: E731
    with runner_of(Table(), scratch) as runner:
        yield _ways(runner, lambda row: "far" if row["target"] > _HIGH else "near", accuracy, make)


def _ways(
    runner: ModelRunner,
    target_of: Callable[[Mapping[str, Any]], Any],
    score_of: Callable[[Sequence[Any]], Score],
    make: Callable[[], Any],
) -> tuple[Way, Way]:
    def drawn(seed: int) -> tuple[Rows, Rows, Score]:
        known, held_out = patients.men(_KNOWN, seed)
        return known, held_out, score_of([target_of(row) for row in held_out])

    def ours(seed: int) -> Outcome:
        known, held_out, score = drawn(seed)
        name = "label" if isinstance(target_of(known[0]), str) else "target"
        rows = [{n: row[n] for n in COLUMNS} | {name: target_of(row)} for row in known]
        recipe = Recipe(method="auto", max_steps=60, seed=seed)
        return asked(runner, Request(held_out, examples=rows, recipe=recipe), score)

    def hand(seed: int) -> Outcome:
        known, held_out, score = drawn(seed)
        targets = [target_of(row) for row in known]

        def adapt() -> Any:
            model = make().fit(_columns(known), targets)
            return lambda: list(model.predict(_columns(held_out)))

        usual = [max(set(targets), key=targets.count)] * len(held_out)
        if not isinstance(targets[0], str):
            usual = [statistics.fmean(targets)] * len(held_out)
        return by_hand(usual, adapt, score)

    return ours, on_model_thread(runner, hand)


def _columns(rows: Rows) -> list[list[float]]:
    return [[row[name] for name in COLUMNS] for row in rows]


def _explained(targets: Sequence[float]) -> Score:
    """Score by R²."""

    def score(answers: Sequence[float]) -> float:
        wanted, said = np.array(targets), np.array([*answers])
        return float(1 - np.square(said - wanted).mean() / wanted.var())

    return score


NUMBERS = Kind(
    "tabular: a network with BatchNorm, 64 patients, a number",
    "examples/tabular",
    "R²",
    "ridge regression",
    {"scikit-learn": "sklearn"},
    numbers,
    first_seed=_FIRST_SEED,
)
CLASSES = Kind(
    "the same, a class",
    "examples/tabular",
    "accuracy",
    "logistic regression",
    {"scikit-learn": "sklearn"},
    classes,
    first_seed=_FIRST_SEED,
)

"""The features that `auto` begins with: computed within its budget, labels in turn."""

import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from cog_adapt.runner.adaptation.start import Start
from cog_adapt.runner.auto.start import AutoStart, given_of, is_too_much
from cog_adapt.runner.inference.answers import Phase


class Compute(Protocol):
    """Computes the features (N, D) of inputs, a batch a tick; None if the task has none."""

    def __call__(
        self, inputs: Sequence[Any], *, is_over: Callable[[], bool]
    ) -> Generator[None, None, Tensor | None]:
        """Compute the features of the first inputs, until `is_over`."""


def gathered(
    start: Start, phase: Phase, compute: Compute, began: float
) -> Generator[None, None, AutoStart | None]:
    """Compute features of inputs, a batch a tick; None if no head can be fitted to them.

    The labels take turns, so that a budget that ends early has seen some examples of each.
    """
    if is_too_much(start):
        return given_of(start, phase=phase, features=None, began=began)
    budget, order = start.training.recipe.budget_seconds, _in_turn(start)

    def is_over() -> bool:
        return budget is not None and time.monotonic() - began >= budget

    found = yield from compute([start.data.examples[i].input for i in order], is_over=is_over)
    if found is None:
        return given_of(start, phase=phase, features=None, began=began)
    features, seen = torch.empty_like(found), sorted(order[: len(found)])
    places = {position: place for place, position in enumerate(seen)}
    features[[places[position] for position in order[: len(found)]]] = found
    chosen = [start.data.examples[i] for i in seen]
    return given_of(
        start.with_examples(chosen), phase=phase, features=features, began=began, asked=len(order)
    )


def _in_turn(start: Start) -> list[int]:
    """Return the positions of the examples: first one of each label, then the next of each."""
    if not start.data.labels:
        return [*range(len(start.data.examples))]
    counts: Counter[str] = Counter()
    turns = []
    for position, example in enumerate(start.data.examples):
        label = repr(example.target)
        turns.append((counts[label], position))
        counts[label] += 1
    return [position for _, position in sorted(turns)]

"""Helpers for tasks whose targets are label names: the label set, and an answer's scores.

A task calls these in its hooks; the runner itself knows only the labels that a task returns.
"""

import unicodedata
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.errors import InputError


def label_set(examples: Sequence[Example]) -> tuple[str, ...]:
    """Return the examples' labels in order of first appearance, for `Task.labels`.

    Raises:
        InputError: there is only one label, or one is no text.
    """
    for number, example in enumerate(examples, 1):
        if not isinstance(example.target, str):
            raise InputError(
                f"example {number} has the label {example.target!r:.80}, which is no text. Give "
                "each example the name of its class."
            )
    labels = tuple(dict.fromkeys(example.target for example in examples))
    if len(labels) == 1:
        raise InputError(
            f"one class only: every example is labelled {labels[0]!r}; at least two labels are "
            "needed. Add examples of another one."
        )
    return labels


def check_apart(labels: Sequence[object]) -> None:
    """Refuse two labels that look alike; labels that are no texts are not compared.

    They are compared as texts in Unicode's NFC, without invisible characters, and with one space
    for any white space; case counts.

    Raises:
        InputError: naming both.
    """
    first_of: dict[str, str] = {}
    for label in labels:
        if not isinstance(label, str):
            continue
        first = first_of.setdefault(_seen(label), label)
        if first != label:
            raise InputError(
                f"the labels {ascii(first):.80} and {ascii(label):.80} look the same: they differ "
                "in white space, in invisible characters, or in how Unicode writes one. "
                "Write both the same way, or rename one."
            )


def _seen(label: str) -> str:
    """Return a label as a reader sees it."""
    if not label.isascii():
        label = unicodedata.normalize("NFC", label)
        label = "".join(each for each in label if unicodedata.category(each) != "Cf")
    return " ".join(label.split())


def label_scores(probabilities: Tensor, labels: Sequence[str]) -> list[Any]:
    """Return `{"label": ..., "scores": {label: probability}}` for each input, for `Task.predict`.

    Args:
        probabilities: (N, K).
        labels: K names.

    Raises:
        InputError: K differs: the adapter's head has other labels.
    """
    if (rows := probabilities.shape[1]) != len(labels):
        raise InputError(
            f"the adapter has {len(labels)} labels and a head of {rows} rows. Use a file that was "
            "made with this model, unchanged."
        )
    found = (dict(zip(labels, row, strict=True)) for row in probabilities.tolist())
    return [{"label": max(scores, key=scores.__getitem__), "scores": scores} for scores in found]

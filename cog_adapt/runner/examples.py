"""Training examples: the values, their limits, and the checks of labelled texts.

Knows what a good set of examples is; does not know how it was written (`example_files`
does) or what a model makes of it. A set is taken whole or refused whole, and a refusal names
the first bad rows at once.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cog_adapt.runner.errors import InputError
from cog_adapt.runner.example_files import ACCEPTED, Fault, Row, brief, read_text, rows_of, utf8

_SHOWN_FAULTS = 5
# A NUL ends a text in C code; half a surrogate pair cannot be encoded or hashed as UTF-8.
_UNFIT = re.compile("[\0\ud800-\udfff]")


@dataclass(frozen=True)
class Example:
    """One training example: what the model is given and what it should answer.

    The readers of this module make text examples, both values `str`; another task may use any
    pair of values.
    """

    input: Any
    target: Any


@dataclass(frozen=True)
class ExampleLimits:
    """The most that a set of examples may hold; texts and labels in characters."""

    max_examples: int = 10_000
    max_labels: int = 1_000
    max_text_chars: int = 20_000
    max_label_chars: int = 200
    max_total_bytes: int = 32 * 2**20


DEFAULT_LIMITS = ExampleLimits()


def parse_examples(source: str | bytes, *, limits: ExampleLimits = DEFAULT_LIMITS) -> list[Example]:
    """Reads labelled texts from a string, or from a file's UTF-8 content.

    The content decides the format: a JSON list of `{"text": ..., "label": ...}`, a JSON object
    of label → texts, JSON Lines, or CSV with the header `text,label` (commas or tabs). White
    space around a label is dropped; texts stay as they are, in their order, duplicates kept.

    Raises:
        InputError: the source cannot be read, breaks a limit or would not train a classifier.
    """
    content = source if isinstance(source, bytes) else source.encode("utf-8", "surrogatepass")
    size = len(content)
    if size > limits.max_total_bytes:
        raise InputError(
            f"the examples take {size} bytes, the limit is {limits.max_total_bytes}: "
            "give fewer or shorter ones"
        )
    text = (utf8(content) if isinstance(source, bytes) else source).removeprefix("\ufeff")
    if not text.strip():
        raise InputError(f"no examples, the source is empty: {ACCEPTED}")
    rows = rows_of(text)
    examples, faults = _sorted_out(rows.each, limits)
    if faults:
        raise _refusal(faults, rows.counting) from faults[0].cause
    _require_classes(examples, limits)
    return examples


def read_examples(path: str | Path, *, limits: ExampleLimits = DEFAULT_LIMITS) -> list[Example]:
    """Reads labelled texts from a UTF-8 file; the name does not matter, see `parse_examples`.

    Raises:
        InputError: the file cannot be read, or its content is refused by `parse_examples`.
    """
    try:
        return parse_examples(read_text(Path(path), limits.max_total_bytes), limits=limits)
    except InputError as cause:
        raise InputError(f"examples file {str(path)!r}: {cause}") from cause


def _sorted_out(
    rows: Iterator[Row | Fault], limits: ExampleLimits
) -> tuple[list[Example], list[Fault]]:
    """Parts the good rows from the bad ones."""
    examples: list[Example] = []
    faults: list[Fault] = []
    first_rows: dict[str, Row] = {}
    for count, row in enumerate(rows):
        if count == limits.max_examples:
            raise InputError(f"more than {limits.max_examples} examples: give fewer")
        checked = row if isinstance(row, Fault) else _checked(row, first_rows, limits)
        if isinstance(checked, Fault):
            faults.append(checked)
        else:
            examples.append(checked)
    return examples, faults


def _checked(row: Row, first_rows: dict[str, Row], limits: ExampleLimits) -> Example | Fault:
    try:
        text = _valid("text", row.text, limits.max_text_chars)
        label = _valid("label", row.label, limits.max_label_chars).strip()
    except InputError as cause:
        return Fault(row.place, str(cause))
    first = first_rows.setdefault(text, Row(row.place, text, label))
    if first.label != label:
        said = f"{brief(label)} here and {brief(first.label)} in {first.place}"
        return Fault(row.place, f"the text {brief(text)} is labelled {said}: keep one")
    return Example(text, label)


def _valid(name: str, value: object, max_chars: int) -> str:
    if not isinstance(value, str):
        raise InputError(_type_problem(name, value))
    if len(value) > max_chars:
        size = f"{len(value)} characters, the limit is {max_chars}"
        raise InputError(f"the {name} {brief(value)} has {size}: shorten it")
    if not value.strip():
        raise InputError(f"the {name} is empty ({brief(value)}): write one or drop the row")
    if unfit := _UNFIT.search(value):
        what = f"{unfit.group()!r} (a NUL or half a surrogate pair) at {unfit.start() + 1}"
        raise InputError(f"the {name} {brief(value)} has {what}: remove it")
    return value


def _type_problem(name: str, value: object) -> str:
    if value is None:
        return f"the {name} is null: write a {name} or drop the row"
    remedy = "give one text in quotes"
    if isinstance(value, int | float):
        remedy = f'write "{brief(value)}" in quotes'
    return f"the {name} {brief(value)} is not a text: {remedy}"


def _refusal(faults: list[Fault], counting: str) -> InputError:
    shown = [f"{fault.place}: {fault.problem}" for fault in faults[:_SHOWN_FAULTS]]
    if len(faults) > _SHOWN_FAULTS:
        shown.append(f"and {len(faults) - _SHOWN_FAULTS} more")
    return InputError("\n  ".join([f"examples refused ({counting}):", *shown]))


def _require_classes(examples: list[Example], limits: ExampleLimits) -> None:
    labels = {example.target for example in examples}
    if not labels:
        raise InputError(f"no examples: {ACCEPTED}")
    if len(labels) == 1:
        raise InputError(
            f"one class only: every example is labelled {brief(labels.pop())}; "
            "at least two labels are needed: add examples of another one"
        )
    if len(labels) > limits.max_labels:
        raise InputError(
            f"{len(labels)} labels, the limit is {limits.max_labels}: give fewer labels"
        )

"""Training examples: the values, their limits, and warnings about a set of them.

This module knows the properties of a good set; `rows` reads the formats, and the model uses the
set. A set is accepted or refused as a whole, and a refusal names the first bad rows at once.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cog_adapt.runner.data.files import ZIP_MARK, read_text_or_zip, utf8
from cog_adapt.runner.data.plain_values import (
    Place,
    characters_of,
    utf8_pieces,
    without_long_texts,
)
from cog_adapt.runner.data.row import (
    ACCEPTED,
    HALF_A_PAIR,
    INPUT_NAMES,
    TARGET_NAMES,
    Fault,
    FlatRow,
    Row,
    Rows,
    brief,
)
from cog_adapt.runner.data.rows import rows_of, rows_of_list
from cog_adapt.runner.data.similar_labels import similar_labels
from cog_adapt.runner.data.zip_rows import zip_rows
from cog_adapt.runner.errors import InputError

_SHOWN = 5
_AROUND_BYTES = 2  # bytes around each item of a list in JSON: a comma and a space, or a bracket


@dataclass(frozen=True)
class Example:
    """One training example: an input, and the answer that the model should give."""

    input: Any
    target: Any


ExampleOf = Callable[[Mapping[str, Any]], Example]
"""Makes an example from a row: `Task.example`."""

Source = str | bytes | Sequence[Mapping[str, Any]]
"""Examples as they are sent: text in one of the formats, or a list of objects."""


@dataclass(frozen=True)
class ExampleSet:
    """The examples of one source, in order, with warnings about them.

    Attributes:
        examples: duplicates included.
        warnings: sentences on unused columns, contradictory rows and similar labels.
    """

    examples: list[Example]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class ExampleLimits:
    """The most that a set of examples may hold.

    Attributes:
        max_examples: rows.
        max_total_bytes: of the source.
        max_brackets: opened by lists and objects; JSON is decoded in one call, during which the
            process answers no other request.
        max_marks: commas and lines, for the same reason.
        max_levels: of lists and objects in a row.
        max_characters: of the texts in an input, and of those in a target; a task may allow fewer.
    """

    max_examples: int = 10_000
    max_total_bytes: int = 32 * 2**20
    max_brackets: int = 50_000
    max_marks: int = 1_000_000
    max_levels: int = 32
    max_characters: int = 131_072


DEFAULT_LIMITS = ExampleLimits()


def usual_example(row: Mapping[str, Any]) -> Example:
    """Take the columns with the usual names, in any case: input, text or sentence; target or label.

    Raises:
        InputError: a column is missing, or its value is empty or null.
    """
    if isinstance(row, FlatRow):
        raise InputError(
            "it lies in no folder. Give a folder for each target, with its files in it"
        )
    return Example(_value(row, INPUT_NAMES), _value(row, TARGET_NAMES))


def parse_examples(
    source: Source, example_of: ExampleOf = usual_example, limits: ExampleLimits = DEFAULT_LIMITS
) -> ExampleSet:
    """Read examples from text, from a file's UTF-8 content, or from a list of objects.

    The content decides the format: a JSON list of objects, a JSON object of target → inputs, JSON
    Lines, CSV with a header (commas, tabs or semicolons), or a ZIP file (`zip_rows`).

    Args:
        source: the rows.
        example_of: makes an example from a row.
        limits: of the set as a whole.

    Raises:
        InputError: the source cannot be read, has a row that is no example, or breaks a limit.
    """
    rows = _rows_within(source, limits)
    examples, faults, unused, contradictions = [], [], dict[str, None](), list[str]()
    first_rows: dict[str | bytes, tuple[str, Any]] = {}
    for row, checked in _read(rows.each, example_of, limits):
        if isinstance(checked, Fault):
            faults.append(checked)
            continue
        unused |= dict.fromkeys(name for name in row if name not in row.used)
        contradictions += _contradiction(row.place, checked, first_rows)
        examples.append(checked)
    if faults:
        raise _refusal(faults, rows.counting) from faults[0].cause
    if not examples:
        raise InputError(f"no examples: {ACCEPTED}")
    similar = similar_labels([example.target for example in examples])
    about_rows = (
        *_shortened("contradictory rows", contradictions),
        *_shortened("similar labels", similar),
    )
    return ExampleSet(examples, (*_about_columns([*unused]), *about_rows))


def read_examples(
    path: str | Path,
    example_of: ExampleOf = usual_example,
    limits: ExampleLimits = DEFAULT_LIMITS,
) -> ExampleSet:
    """Read examples from a file; its name does not matter, see `parse_examples`.

    Raises:
        InputError: the file cannot be read, or its content is refused by `parse_examples`.
    """
    try:
        return parse_examples(
            read_text_or_zip(Path(path), limits.max_total_bytes), example_of, limits
        )
    except InputError as cause:
        raise InputError(f"examples file {str(path)!r}: {cause}") from cause


def _rows_within(source: Source, limits: ExampleLimits) -> Rows:
    if not isinstance(source, str | bytes) and len(source) > limits.max_examples:
        raise _too_many(limits)
    size = _size_of(source)
    if size > limits.max_total_bytes:
        raise InputError(
            f"the examples take {size} bytes, the limit is {limits.max_total_bytes}: "
            "give fewer or shorter ones"
        )
    if not isinstance(source, str | bytes):
        return rows_of_list(source)
    if isinstance(source, bytes) and source.startswith(ZIP_MARK):
        return zip_rows(source, limits.max_examples)
    text = (utf8(source) if isinstance(source, bytes) else source).removeprefix("\ufeff")
    if not text.strip():
        raise InputError(f"no examples, the source is empty: {ACCEPTED}")
    _refuse_crowd(text, limits)
    return rows_of(text)


def _size_of(source: Source) -> int:
    """Return the bytes of a source, of a list as JSON: row by row, so that other threads run."""
    if isinstance(source, bytes):
        return len(source)
    try:
        if isinstance(source, str):
            return len(source.encode())
        return sum(_json_size(row) + _AROUND_BYTES for row in source)
    except UnicodeEncodeError as cause:
        raise InputError(HALF_A_PAIR) from cause
    except (RecursionError, ValueError) as cause:
        raise InputError(f"JSON nested too deep, or in itself: {ACCEPTED}") from cause


def _json_size(row: Mapping[str, Any]) -> int:
    """Return the bytes of a row as JSON; the escapes of long texts are not counted."""
    long: list[tuple[Place, str]] = []
    short = json.dumps(without_long_texts(row, long), default=str, ensure_ascii=False)
    return len(short.encode()) + sum(len(piece) for _, text in long for piece in utf8_pieces(text))


def _too_many(limits: ExampleLimits) -> InputError:
    return InputError(f"more than {limits.max_examples} examples: give fewer")


def _refuse_crowd(text: str, limits: ExampleLimits) -> None:
    brackets, marks = limits.max_brackets, limits.max_marks
    for each, name, most in (
        ("{[", "brackets", brackets),
        (",\t;", "commas", marks),
        ("\n", "lines", marks),
    ):
        if sum(map(text.count, each)) > most:
            raise InputError(
                f"the examples have more than {most:,} {name}: give fewer rows, without the "
                "columns that are not used"
            )


def _read(
    rows: Iterator[Row | Fault], example_of: ExampleOf, limits: ExampleLimits
) -> Iterator[tuple[Row, Example | Fault]]:
    """Yield each row with its example, or with its fault."""
    for count, row in enumerate(rows):
        if count == limits.max_examples:
            raise _too_many(limits)
        if isinstance(row, Fault):
            yield Row(row.place, {}), row
            continue
        try:
            yield row, _bounded(example_of(row), limits)
        except InputError as cause:
            yield row, Fault(row.place, str(cause))


def _bounded(example: Example, limits: ExampleLimits) -> Example:
    if not all(_is_flat(each, limits.max_levels) for each in (example.input, example.target)):
        raise InputError(f"more than {limits.max_levels} levels of lists and objects: flatten it")
    for name, value in (("input", example.input), ("target", example.target)):
        size = characters_of(value)
        if size > limits.max_characters:
            limit = f"the limit is {limits.max_characters:,}"
            raise InputError(f"the {name} has {size:,} characters, {limit}: shorten it")
    return example


def _is_flat(value: object, levels: int) -> bool:
    """Return whether lists and objects nest at most so deep."""
    if not isinstance(value, list | dict):
        return True
    parts = value.values() if isinstance(value, dict) else value
    return levels > 0 and all(_is_flat(part, levels - 1) for part in parts)


def _value(row: Mapping[str, Any], names: Sequence[str]) -> Any:  # noqa: ANN401 - any of JSON
    columns = {column.strip().casefold(): column for column in reversed([*row])}
    name = next((columns[name] for name in names if name in columns), None)
    if name is None:
        known = f"one of {', '.join(map(repr, names))}; the row is {brief(dict(row))}"
        remedy = f"name its column {known}. A task that reads other columns writes `example`"
        raise InputError(f"no {names[0]} among {brief([*row])}: {remedy}")
    value = row[name]
    if value is None:
        raise InputError(f"the {name} is null: write a {name} or drop the row")
    if isinstance(value, str) and not value.strip():
        raise InputError(f"the {name} is empty ({brief(value)}): write one or drop the row")
    return value


def _contradiction(
    place: str, example: Example, first_rows: dict[str | bytes, tuple[str, Any]]
) -> list[str]:
    """Return a warning if an earlier row has the same input with another target."""
    key = example.input if isinstance(example.input, str | bytes) else repr(example.input)
    first_place, target = first_rows.setdefault(key, (place, example.target))
    if target == example.target:
        return []
    said = f"{brief(example.target)} in {place} and {brief(target)} in {first_place}"
    return [f"{brief(example.input)} is {said}"]


def _about_columns(unused: list[str]) -> list[str]:
    return [f"columns not used: {brief(unused)[1:-1]}"] if unused else []


def _shortened(kind: str, found: list[str]) -> list[str]:
    more = len(found) - _SHOWN
    shown = found[:_SHOWN] + ([f"and {more} more"] if more > 0 else [])
    return [f"{kind}: {'; '.join(shown)}"] if shown else []


def _refusal(faults: list[Fault], counting: str) -> InputError:
    shown = [f"{fault.place}: {fault.problem}" for fault in faults[:_SHOWN]]
    if len(faults) > _SHOWN:
        shown.append(f"and {len(faults) - _SHOWN} more")
    return InputError("\n  ".join([f"examples refused ({counting}):", *shown]))

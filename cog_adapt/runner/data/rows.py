"""The formats of examples: JSON, JSON Lines and CSV turned into rows.

This module knows the formats; `Task.example` knows the meaning of a row. The format is read from
the content alone: Cog names the files it makes from data URLs `file.bin`, `file.csv` or nothing
useful.
"""

import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

from cog_adapt.runner.data.csv_rows import csv_rows
from cog_adapt.runner.data.row import (
    ACCEPTED,
    HALF_A_PAIR,
    INPUT_NAMES,
    MOST_COLUMNS,
    TARGET_NAMES,
    Fault,
    Row,
    Rows,
    brief,
)
from cog_adapt.runner.errors import InputError


def rows_of(text: str) -> Rows:
    """Find the format of `text` and return its rows.

    Raises:
        InputError: the source as a whole cannot be read: broken JSON, a wrong CSV header.
    """
    first = text.lstrip()[:1]
    if first == "[":
        return rows_of_list(_decoded(text, decode=_items))
    if first != "{":
        return csv_rows(text)
    return _json_lines(text) if _is_json_lines(text) else _object_rows(_decoded(text))


def rows_of_list(document: object) -> Rows:
    """Return the rows of a list of objects; any other value is a single row."""
    items = document if isinstance(document, Sequence) else [document]
    rows = (_item_row(f"row {number}", item) for number, item in enumerate(items, start=1))
    return Rows(rows, "a row is an item of the list, counted from 1")


def _object_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value: dict[str, object] = {}
    for key, item in pairs:
        if key in value:
            raise InputError(f"the key {brief(key)} occurs twice in one object: keep one")
        value[key] = item
    return value


def _no_constant(constant: str) -> object:
    raise InputError(f"{constant} is not JSON: give a number, or a text in quotes")


_HALF = re.compile(r"\\u[dD][89a-fA-F]")  # an escaped surrogate, alone or in a pair
_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder(object_pairs_hook=_object_once, parse_constant=_no_constant)


def _decoded(
    text: str, first_line: int = 1, decode: Callable[[str], object] | None = None
) -> object:
    try:
        return (decode or _whole)(text)
    except json.JSONDecodeError as cause:
        where = f"line {first_line + cause.lineno - 1}, column {cause.colno}"
        raise InputError(f"broken JSON at {where}: {cause.msg}: correct it there") from cause
    except RecursionError as cause:
        raise InputError(f"JSON nested too deep: {ACCEPTED}") from cause
    except InputError:
        raise
    except UnicodeEncodeError as cause:
        raise InputError(HALF_A_PAIR) from cause
    except ValueError as cause:
        raise InputError("a number has too many digits: write texts in quotes") from cause


def _whole(text: str) -> object:
    value = _DECODER.decode(text)
    _refuse_halves(value, text=text, start=0, end=len(text))
    return value


def _items(text: str) -> list[object]:
    """Decode a list item by item: the decoder lets no other thread run until it returns."""
    items = list[object]()
    place = _past_space(text, text.index("[") + 1)
    while not (text.startswith("]", place) and not items):
        item, end = _DECODER.raw_decode(text, place)
        _refuse_halves(item, text=text, start=place, end=end)
        items.append(item)
        place = _past_space(text, end)
        if text.startswith("]", place):
            break
        if not text.startswith(",", place):
            raise json.JSONDecodeError("Expecting ',' delimiter", text, place)
        place = _past_space(text, place + 1)
    end = _past_space(text, place + 1)
    if end != len(text):
        raise json.JSONDecodeError("Extra data", text, end)
    return items


def _past_space(text: str, place: int) -> int:
    found = _SPACE.match(text, place)
    return found.end() if found else place


def _refuse_halves(value: object, text: str, start: int, end: int) -> None:
    """Refuse half a surrogate pair in what a part of a text was decoded to (UnicodeEncodeError)."""
    if _HALF.search(text, start, end):
        json.dumps(value, ensure_ascii=False).encode()


def _is_json_lines(text: str) -> bool:
    """Return whether a text is JSON Lines rather than one object, even if a line is broken."""
    lines = (line.strip() for line in io.StringIO(text, newline=""))
    first, second = [*islice(filter(None, lines), 2), ""][:2]
    return bool(second) and (first.endswith("}") or second.startswith("{"))


def _json_lines(text: str) -> Rows:
    lines = enumerate(io.StringIO(text, newline=""), start=1)
    rows = (_line_row(number, line.rstrip("\r\n")) for number, line in lines if line.strip())
    return Rows(rows, "a row is a line, counted from 1")


def _line_row(number: int, line: str) -> Row | Fault:
    place = f"row {number}"
    try:
        return _item_row(place, _decoded(line, first_line=number))
    except InputError as cause:
        return Fault(place, str(cause), cause)


def _item_row(place: str, item: object) -> Row | Fault:
    if not isinstance(item, Mapping):
        wanted = '{"input": ..., "target": ...}'
        return Fault(place, f"{brief(item)} is not an object: write {wanted}")
    if len(item) > MOST_COLUMNS:
        columns = f"{len(item):,} columns, the limit is {MOST_COLUMNS:,}"
        return Fault(place, f"{columns}: leave out those that are not used")
    return Row(place, item)


def _object_rows(document: object) -> Rows:
    """Read one object: target → inputs, or a single example."""
    lists = isinstance(document, dict) and any(isinstance(v, list) for v in document.values())
    if not isinstance(document, dict) or not lists or _is_single(document):
        return rows_of_list([document] if document else [])
    if len(document) == 2 and all(_is_usual(name) for name in document):
        names = " and ".join(f'"{name}"' for name in document)
        raise InputError(f"{names} hold lists, which could be columns: {ACCEPTED}")
    rows = (row for target, inputs in document.items() for row in _target_rows(target, inputs))
    return Rows(rows, "a row is an item of its target's list, counted from 1")


def _is_single(document: dict[str, object]) -> bool:
    return any(_is_usual(name) and not isinstance(v, list) for name, v in document.items())


def _is_usual(name: str) -> bool:
    return name.strip().casefold() in (*INPUT_NAMES, *TARGET_NAMES)


def _target_rows(target: str, inputs: object) -> Iterator[Row | Fault]:
    if not isinstance(inputs, list):
        problem = f"{brief(inputs)} is not a list: write [ ] around the inputs"
        yield Fault(f"target {brief(target)}", problem)
    elif not inputs:
        problem = "its list is empty: add an input or drop the target"
        yield Fault(f"target {brief(target)}", problem)
    else:
        for number, value in enumerate(inputs, start=1):
            place = f"row {number} of {brief(target)}"
            yield Row(place, {INPUT_NAMES[0]: value, TARGET_NAMES[0]: target})

"""The formats of examples: JSON, JSON Lines and CSV turned into rows.

Knows how a source is written and where each row stands in it; does not know which texts and
labels make good examples (`examples` does). The format is read from the content alone:
Cog names the files it makes from data URLs `file.bin`, `file.csv` or nothing useful.
"""

import csv
import io
import json
import reprlib
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from cog_adapt.runner.errors import InputError

NAMES = ("text", "label")
ACCEPTED = (
    'give a JSON list of {"text": ..., "label": ...}, a JSON object {label: [texts]}, '
    "JSON Lines, or CSV whose first line is text,label"
)

_shortener = reprlib.Repr()
_shortener.maxstring = _shortener.maxlong = _shortener.maxother = 60
_shortener.maxlevel, _shortener.maxlist, _shortener.maxdict = 1, 2, 2


@dataclass(frozen=True)
class Row:
    """One row as the source has it; its values are not yet checked."""

    place: str
    text: object
    label: object


@dataclass(frozen=True)
class Fault:
    """One row that cannot be an example: where it stands and what to do about it."""

    place: str
    problem: str
    cause: Exception | None = None


@dataclass(frozen=True)
class Rows:
    """The rows of one source, read as they are asked for, and what their numbers count."""

    each: Iterator[Row | Fault]
    counting: str


def brief(value: object) -> str:
    """Shows any value in a few dozen characters, unprintable ones escaped."""
    return _shortener.repr(value)


def read_text(path: Path, max_bytes: int) -> str:
    """Reads a UTF-8 file; a byte order mark stays in the text.

    Raises:
        InputError: the file is missing, unreadable, no regular file, too big or not UTF-8.
    """
    try:
        content = _first_bytes(path, max_bytes + 1)
    except (OSError, ValueError) as cause:
        raise InputError(f"it cannot be read ({cause}): give a file of examples") from cause
    if len(content) > max_bytes:
        raise InputError(f"it is bigger than {max_bytes} bytes: give fewer or shorter examples")
    return utf8(content)


def _first_bytes(path: Path, count: int) -> bytes:
    # Opening a pipe would wait for a writer that may never come.
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError("a folder, pipe or device, no regular file")
    with path.open("rb") as file:
        return file.read(count)


def utf8(content: bytes) -> str:
    """The text of UTF-8 bytes; others are an InputError with offset and line."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as cause:
        line = content.count(b"\n", 0, cause.start) + 1
        raise InputError(
            f"it is not UTF-8: byte 0x{content[cause.start]:02x} at offset {cause.start} "
            f"(line {line}): save the file as UTF-8"
        ) from cause


def rows_of(text: str) -> Rows:
    """Finds the format of `text` and returns its rows.

    Raises:
        InputError: the source as a whole cannot be read: broken JSON, a wrong CSV header.
    """
    first = text.lstrip()[:1]
    if first == "[":
        return _list_rows(_decoded(text))
    if first != "{":
        return _csv_rows(text)
    return _json_lines(text) if _is_json_lines(text) else _object_rows(_decoded(text))


def _names_problem(names: list[str], what: str) -> str | None:
    for name in names:
        if name not in NAMES:
            return f"unknown {what} {brief(name)}: the known ones are {', '.join(NAMES)}"
        if names.count(name) > 1:
            return f"the {what} {brief(name)} stands twice: keep one"
    missing = [name for name in NAMES if name not in names]
    return f"no {what} {missing[0]!r}: add it" if missing else None


def _object_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value: dict[str, object] = {}
    for key, item in pairs:
        if key in value:
            raise InputError(f"the key {brief(key)} stands twice in one object: keep one")
        value[key] = item
    return value


def _no_constant(constant: str) -> object:
    raise InputError(f"{constant} is not JSON: give a text in quotes")


_DECODER = json.JSONDecoder(object_pairs_hook=_object_once, parse_constant=_no_constant)


def _decoded(text: str, first_line: int = 1) -> object:
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as cause:
        where = f"line {first_line + cause.lineno - 1}, column {cause.colno}"
        raise InputError(f"broken JSON at {where}: {cause.msg}: correct it there") from cause
    except RecursionError as cause:
        raise InputError(f"JSON nested too deep: {ACCEPTED}") from cause
    except InputError:
        raise
    except ValueError as cause:
        raise InputError("a number has too many digits: write texts in quotes") from cause


def _is_json_lines(text: str) -> bool:
    """Tells JSON Lines from one object, also where a line of it is broken."""
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
    if not isinstance(item, dict):
        wanted = '{"text": ..., "label": ...}'
        return Fault(place, f"{brief(item)} is not an object: write {wanted}")
    problem = _names_problem(list(item), "key")
    return Fault(place, problem) if problem else Row(place, item["text"], item["label"])


def _list_rows(document: object) -> Rows:
    items = document if isinstance(document, list) else [document]
    rows = (_item_row(f"row {number}", item) for number, item in enumerate(items, start=1))
    return Rows(rows, "a row is an item of the list, counted from 1")


def _object_rows(document: object) -> Rows:
    """Reads one object: label → texts, or a single example that stands alone."""
    if not isinstance(document, dict) or any(
        not isinstance(document.get(name, []), list) for name in NAMES
    ):
        return _list_rows(document)
    if set(document) == set(NAMES):
        raise InputError(f'"text" and "label" hold lists, which could be columns: {ACCEPTED}')
    rows = (row for label, texts in document.items() for row in _label_rows(label, texts))
    return Rows(rows, "a row is a text of its label's list, counted from 1")


def _label_rows(label: str, texts: object) -> Iterator[Row | Fault]:
    if not isinstance(texts, list):
        problem = f"{brief(texts)} is not a list: write [ ] around the texts"
        yield Fault(f"label {brief(label)}", problem)
    elif not texts:
        yield Fault(f"label {brief(label)}", "its list is empty: add a text or drop the label")
    else:
        for number, text in enumerate(texts, start=1):
            yield Row(f"row {number} of {brief(label)}", text, label)


def _csv_records(text: str) -> Iterator[tuple[str, list[str]] | Fault]:
    """Yields each record with its place; a broken one is the last, no later line is sure."""
    header = io.StringIO(text.lstrip(), newline="").readline()
    delimiter = "\t" if "\t" in header and "," not in header else ","
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    while True:
        place = f"row {reader.line_num + 1}"
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as cause:
            remedy = 'close every quote, double a quote inside a text (""), shorten long texts'
            yield Fault(place, f"broken CSV, reading stopped here: {cause}: {remedy}", cause)
            return
        if len(record) > 1 or "".join(record).strip():
            yield place, record


def _csv_rows(text: str) -> Rows:
    records = _csv_records(text)
    header = next(records, ("row 1", []))
    if isinstance(header, Fault):
        raise InputError(f"{header.place}: {header.problem}") from header.cause
    names = [name.strip() for name in header[1]]
    problem = _names_problem(names, "column")
    if problem:
        raise InputError(f"{header[0]}, the header of the CSV: {problem}; {ACCEPTED}")
    rows = (_record_row(record, names) for record in records)
    return Rows(rows, "a row is the line where a record starts, the header being row 1")


def _record_row(record: tuple[str, list[str]] | Fault, names: list[str]) -> Row | Fault:
    if isinstance(record, Fault):
        return record
    place, fields = record
    if len(fields) != len(names):
        count = f"{len(fields)} field{'s' * (len(fields) > 1)}, the header has {len(names)}"
        return Fault(place, f"{count}: quote a text that has the delimiter in it")
    return Row(place, fields[names.index("text")], fields[names.index("label")])

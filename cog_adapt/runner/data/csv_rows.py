"""CSV turned into rows; separated by commas, tabs or semicolons, as in the header."""

import csv
import io
from collections.abc import Iterator
from threading import Lock

from cog_adapt.runner.data.row import MOST_COLUMNS, Fault, Row, Rows, brief
from cog_adapt.runner.errors import InputError

# the limit of the whole source: a picture in base64 is longer than csv's own 131,072
_MOST_FIELD = 32 * 2**20
_READING = Lock()


def csv_rows(text: str) -> Rows:
    """Return the rows of a CSV with a header (InputError if the header cannot be used)."""
    records = _csv_records(text)
    header = next(records, ("row 1", []))
    if isinstance(header, Fault):
        raise InputError(f"{header.place}: {header.problem}") from header.cause
    names = [name.strip() for name in header[1]]
    if len(names) > MOST_COLUMNS:
        raise InputError(
            f"{header[0]}, the header of the CSV: {len(names):,} columns, the limit is "
            f"{MOST_COLUMNS:,}: leave out those that are not used"
        )
    double = next((name for name in names if names.count(name) > 1), None)
    if double is not None:
        raise InputError(
            f"{header[0]}, the header of the CSV: the column {brief(double)} occurs twice: keep one"
        )
    rows = (_record_row(record, names) for record in records)
    return Rows(rows, "a row is the line where a record starts, the header being row 1")


def _csv_records(text: str) -> Iterator[tuple[str, list[str]] | Fault]:
    """Yield each record with its place; a broken record is the last one."""
    header = io.StringIO(text.lstrip(), newline="").readline()
    delimiter = next((mark for mark in ",\t;" if mark in header), ",")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    while True:
        place = f"row {reader.line_num + 1}"
        try:
            record = _next(reader)
        except StopIteration:
            return
        except csv.Error as cause:
            remedy = 'close every quote, double a quote inside a text (""), shorten long texts'
            yield Fault(place, f"broken CSV, reading stopped here: {cause}: {remedy}", cause)
            return
        if len(record) > 1 or "".join(record).strip():
            yield place, record


def _next(reader: Iterator[list[str]]) -> list[str]:
    """Read a record; the process-wide limit of a field is restored at once."""
    with _READING:
        usual = csv.field_size_limit(_MOST_FIELD)
        try:
            return next(reader)
        finally:
            csv.field_size_limit(usual)


def _record_row(record: tuple[str, list[str]] | Fault, names: list[str]) -> Row | Fault:
    if isinstance(record, Fault):
        return record
    place, fields = record
    if len(fields) != len(names):
        count = f"{len(fields)} field{'s' * (len(fields) > 1)}, the header has {len(names)}"
        return Fault(place, f"{count}: quote a text that has the delimiter in it")
    return Row(place, dict(zip(names, fields, strict=True)))

"""CSV becomes rows with their places, whichever of three delimiters it has."""

import pytest

from cog_adapt.runner.data.csv_rows import csv_rows
from cog_adapt.runner.data.row import Fault, Row
from cog_adapt.runner.errors import InputError


def read(text):
    return [
        row if isinstance(row, Fault) else (row.place, dict(row)) for row in csv_rows(text).each
    ]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("text,label\na,x\n\nb,y\n", [("row 2", "a", "x"), ("row 4", "b", "y")]),
        ("label, text\nx,a", [("row 2", "a", "x")]),
        ("text\tlabel\na, b\tx", [("row 2", "a, b", "x")]),
        ("text;label\na, b;x", [("row 2", "a, b", "x")]),
        ('text,label\n"a\nb",x\nc,y', [("row 2", "a\nb", "x"), ("row 4", "c", "y")]),
        ("text,label\na\tb;c,x", [("row 2", "a\tb;c", "x")]),
    ],
)
def test_the_header_decides_the_delimiter(text, rows):
    assert read(text) == [(place, {"text": a, "label": b}) for place, a, b in rows]


def test_the_numbers_say_what_they_count():
    assert "the line where a record starts" in csv_rows("text,label\n").counting


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("text,label\na", "1 field, the header has 2"),
        ("text,label\na,b,c", "3 fields, the header has 2"),
        ('text,label\n"a', "broken CSV, reading stopped here"),
    ],
)
def test_a_bad_record_is_a_fault_at_its_place(text, problem):
    (fault,) = read(text)
    assert fault.place == "row 2"
    assert problem in fault.problem


def test_after_a_broken_record_nothing_more_is_read():
    rows = csv_rows('text,label\na,x\n"b"c,y\nd,z').each
    assert [type(row) for row in rows] == [Row, Fault]


@pytest.mark.parametrize(
    ("text", "message"),
    [("text,text,label\na", "the column 'text' occurs twice"), ('"text', "row 1: broken CSV")],
)
def test_a_header_that_cannot_be_used_refuses_the_whole(text, message):
    with pytest.raises(InputError, match=message):
        read(text)


def test_a_field_may_be_as_long_as_a_picture_in_base64():
    picture = "iVBOR" * 100_000
    assert read(f"input,label\n{picture},cat") == [("row 2", {"input": picture, "label": "cat"})]

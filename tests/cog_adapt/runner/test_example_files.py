"""Each format becomes rows with their places; a source that cannot be read says why."""

import os

import pytest

from cog_adapt.runner.errors import InputError
from cog_adapt.runner.example_files import Fault, Row, brief, read_text, rows_of, utf8


def read(text):
    return list(rows_of(text).each)


JSON_LIST = '[{"text": "a", "label": "x"}, {"label": "y", "text": "b"}]'
FORMATS = {
    JSON_LIST: [Row("row 1", "a", "x"), Row("row 2", "b", "y")],
    '  \n[{"text": 1, "label": null}]': [Row("row 1", 1, None)],
    '{"x": ["a", "b"], "y": ["c"]}': [
        Row("row 1 of 'x'", "a", "x"),
        Row("row 2 of 'x'", "b", "x"),
        Row("row 1 of 'y'", "c", "y"),
    ],
    '{"text": "a", "label": "x"}': [Row("row 1", "a", "x")],
    '{"text": "a", "label": "x"}\n\n{"text": "b", "label": "y"}\r\n': [
        Row("row 1", "a", "x"),
        Row("row 3", "b", "y"),
    ],
    "text,label\na,x\n\nb,y\n": [Row("row 2", "a", "x"), Row("row 4", "b", "y")],
    "label, text\nx,a": [Row("row 2", "a", "x")],
    "text\tlabel\na, b\tx": [Row("row 2", "a, b", "x")],
    'text,label\n"a\nb",x\nc,y': [Row("row 2", "a\nb", "x"), Row("row 4", "c", "y")],
    "text,label\na\tb,x": [Row("row 2", "a\tb", "x")],
}


@pytest.mark.parametrize("text", FORMATS, ids=range(len(FORMATS)))
def test_a_format_is_known_by_its_content(text):
    assert read(text) == FORMATS[text]


@pytest.mark.parametrize(
    ("text", "counting"),
    [
        (JSON_LIST, "an item of the list"),
        ('{"x": ["a"]}', "a text of its label's list"),
        ('{"text": "a", "label": "x"}\n{}', "a row is a line"),
        ("text,label\n", "the line where a record starts"),
    ],
)
def test_the_numbers_say_what_they_count(text, counting):
    assert counting in rows_of(text).counting


FAULTS = {
    "[1]": ("row 1", "1 is not an object"),
    '[{"text": "a"}]': ("row 1", "no key 'label'"),
    '[{"label": "a"}]': ("row 1", "no key 'text'"),
    '[{"text": "a", "label": "b", "more": 1}]': ("row 1", "unknown key 'more'"),
    '{"x": "a", "y": []}': ("label 'x'", "'a' is not a list"),
    '{"y": []}': ("label 'y'", "its list is empty"),
    '{"text": "a", "label": "b"}\n{"text": }': ("row 2", "broken JSON at line 2, column 10"),
    "text,label\na": ("row 2", "1 field, the header has 2"),
    "text,label\na,b,c": ("row 2", "3 fields, the header has 2"),
    'text,label\n"a': ("row 2", "broken CSV, reading stopped here"),
}


@pytest.mark.parametrize("text", FAULTS)
def test_a_bad_row_is_a_fault_at_its_place(text):
    place, problem = FAULTS[text]
    fault = next(row for row in read(text) if isinstance(row, Fault))
    assert fault.place == place
    assert problem in fault.problem


def test_after_a_broken_record_nothing_more_is_read():
    assert [type(row) for row in read('text,label\na,x\n"b"c,y\nd,z')] == [Row, Fault]


REFUSED = {
    "[1": r"broken JSON at line 1, column \d",
    '[\n{"text": "a",,}]': "broken JSON at line 2, column 14",
    '[{"text": "a", "text": "b"}]': "the key 'text' stands twice",
    "[NaN]": "NaN is not JSON",
    "[" * 100_000: "nested too deep",
    "[" + "1" * 5000 + "]": "too many digits",
    '{"text": ["a"], "label": ["b"]}': "hold lists, which could be columns",
    "text\na": "the header of the CSV: no column 'label'",
    "text,text,label\na": "the column 'text' stands twice",
    "text,label,extra\na": "unknown column 'extra'",
    "text,label\tx\na,b": r"unknown column 'label\\tx'",
    '"text': "row 1: broken CSV",
}


@pytest.mark.parametrize("text", REFUSED, ids=range(len(REFUSED)))
def test_a_source_that_cannot_be_read_says_why(text):
    with pytest.raises(InputError, match=REFUSED[text]):
        read(text)


def test_a_file_is_read_up_to_its_limit(tmp_path):
    path = tmp_path / "a"
    path.write_bytes("äb".encode())
    assert read_text(path, 3) == "äb"
    with pytest.raises(InputError, match="bigger than 2 bytes"):
        read_text(path, 2)


def test_what_is_no_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in ("gone", "pipe", "."):
        with pytest.raises(InputError, match="it cannot be read .*: give a file"):
            read_text(tmp_path / name, 10)


def test_bytes_that_are_no_utf8_are_refused_with_their_place():
    assert utf8("ä\n".encode()) == "ä\n"
    with pytest.raises(InputError, match=r"byte 0xff at offset 4 \(line 3\)"):
        utf8(b"a\nb\n\xff")


def test_any_value_is_shown_in_a_few_dozen_characters():
    assert brief("a\0") == r"'a\x00'"
    assert len(brief("a" * 1000)) == 60
    assert brief([1, 2, 3]) == "[1, 2, ...]"

"""Each format becomes rows with their places; a source that cannot be read says why."""

import pytest

from cog_adapt.runner.data.row import Fault
from cog_adapt.runner.data.rows import rows_of, rows_of_list
from cog_adapt.runner.errors import InputError


def read(text):
    return [row if isinstance(row, Fault) else (row.place, dict(row)) for row in rows_of(text).each]


def labelled(place, text, label):
    return (place, {"text": text, "label": label})


def under_a_target(place, value, target):
    return (place, {"input": value, "target": target})


JSON_LIST = '[{"text": "a", "label": "x"}, {"label": "y", "text": "b"}]'
FORMATS = {
    JSON_LIST: [labelled("row 1", "a", "x"), labelled("row 2", "b", "y")],
    '  \n[{"text": 1, "label": null}]': [labelled("row 1", 1, None)],
    '[{"pixels": [1, 2], "id": 7}]': [("row 1", {"pixels": [1, 2], "id": 7})],
    '{"x": ["a", "b"], "y": ["c"]}': [
        under_a_target("row 1 of 'x'", "a", "x"),
        under_a_target("row 2 of 'x'", "b", "x"),
        under_a_target("row 1 of 'y'", "c", "y"),
    ],
    '{"text": "a", "label": "x"}': [labelled("row 1", "a", "x")],
    '{"pixels": [1, 2], "Label": "x"}': [("row 1", {"pixels": [1, 2], "Label": "x"})],
    '{"a": 1}': [("row 1", {"a": 1})],
    '{"text": "a", "label": "x"}\n\n{"text": "b", "label": "y"}\r\n': [
        labelled("row 1", "a", "x"),
        labelled("row 3", "b", "y"),
    ],
    "text,label\na,x\n\nb,y\n": [labelled("row 2", "a", "x"), labelled("row 4", "b", "y")],
}


@pytest.mark.parametrize("text", FORMATS, ids=range(len(FORMATS)))
def test_a_format_is_known_by_its_content(text):
    assert read(text) == FORMATS[text]


@pytest.mark.parametrize(
    ("text", "counting"),
    [
        (JSON_LIST, "an item of the list"),
        ('{"x": ["a"]}', "an item of its target's list"),
        ('{"text": "a", "label": "x"}\n{}', "a row is a line"),
        ("text,label\n", "the line where a record starts"),
    ],
)
def test_the_numbers_say_what_they_count(text, counting):
    assert counting in rows_of(text).counting


FAULTS = {
    "[1]": ("row 1", "1 is not an object"),
    '{"x": "a", "y": []}': ("target 'x'", "'a' is not a list"),
    '{"y": []}': ("target 'y'", "its list is empty"),
    '{"text": "a", "label": "b"}\n{"text": }': ("row 2", "broken JSON at line 2, column 10"),
}


@pytest.mark.parametrize("text", FAULTS)
def test_a_bad_row_is_a_fault_at_its_place(text):
    place, problem = FAULTS[text]
    fault = next(row for row in read(text) if isinstance(row, Fault))
    assert fault.place == place
    assert problem in fault.problem


REFUSED = {
    "[1": r"broken JSON at line 1, column \d",
    '[\n{"text": "a",,}]': "broken JSON at line 2, column 14",
    '[{"text": "a", "text": "b"}]': "the key 'text' occurs twice",
    "[NaN]": "NaN is not JSON",
    "[" * 100_000: "nested too deep",
    "[" + "1" * 5000 + "]": "too many digits",
    '{"text": ["a"], "label": ["b"]}': "hold lists, which could be columns",
    "text,text,label\na": "the column 'text' occurs twice",
}


@pytest.mark.parametrize("text", REFUSED, ids=range(len(REFUSED)))
def test_a_source_that_cannot_be_read_says_why(text):
    with pytest.raises(InputError, match=REFUSED[text]):
        read(text)


def test_objects_that_are_no_text_any_more_are_rows_too():
    row, fault = rows_of_list([{"text": "a"}, 3]).each
    assert not isinstance(row, Fault)
    assert dict(row) == {"text": "a"}
    assert isinstance(fault, Fault)

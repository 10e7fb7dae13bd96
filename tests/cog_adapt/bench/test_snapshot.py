import pytest

from bench.house.ids import grouped, ungrouped
from bench.house.normal import body_shape, normal, shape
from bench.house.test_map import TestMap, differences


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("pred_18f2a3b4c5d6e7f8 ended", "<id> ended"),
        ("at 2026-11-22T01:01:35.632098Z", "at <time>"),
        ("http://127.0.0.1:39295/hook", "http://127.0.0.1:<port>/hook"),
        ("Started server process [5813]", "Started server process [<pid>]"),
        ("step 1/2 loss 0.6931", "step 1/2 loss <n>"),
        ("coglet 0.23.1, at most 300.0", "coglet 0.23.1, at most 300.0"),
        ("half\rwhole\n", "whole\n"),
        (
            'Traceback (most recent call last):\n  File "x", line 3\nValueError: no',
            "<traceback>\nValueError: no",
        ),
    ],
)
def test_what_changes_from_run_to_run_has_a_placeholder(text, told):
    assert normal(text) == told


def test_a_known_text_is_replaced_first():
    assert normal("in /a/b/c", {"/a": "<a>", "/a/b": "<b>"}) == "in <b>/c"


def test_a_shape_keeps_keys_types_and_short_texts():
    value = {"n": 3, "f": 0.5, "b": True, "none": None, "list": [1, 2, "x"], "s": "y" * 500}
    assert shape(value) == {
        "n": "int",
        "f": "float",
        "b": True,
        "none": None,
        "list": ["int", "x"],
        "s": "a long text",
    }


def test_an_event_stream_is_told_by_its_different_events():
    body = b'event: output\ndata: {"chunk": 1}\n\n' * 3 + b"event: completed\ndata: {}\n\n"
    assert body_shape("text/event-stream", body) == [
        {"event": "output", "data": {"chunk": "int"}},
        {"event": "completed", "data": {}},
    ]


def test_grouped_ids_can_be_had_back():
    ids = ["a.py::test_b", "a.py::test_c[1]", "a.py::test_c[2-[x]]", "b.py::T::test_d"]
    assert ungrouped(grouped(ids)) == ids
    assert ungrouped("") == []


def test_each_test_is_found_or_missed():
    mapping = TestMap.of(
        "# moved\nold/ => new/\nold/x.py => new/y.py\nold/z.py => removed, because so\n"
    )
    old = ["old/a.py::t", "old/x.py::t", "old/z.py::t", "old/lost.py::t", "stays.py::t"]
    new = ["new/a.py::t", "new/y.py::t", "stays.py::t", "new/more.py::t"]
    assert differences(old, new, mapping) == [
        "- old/lost.py::t (looked for new/lost.py::t)",
        "+ new/more.py::t",
    ]


def test_a_line_that_says_nothing_is_refused():
    with pytest.raises(ValueError, match="write 'OLD => NEW'"):
        TestMap.of("old/a.py\n")

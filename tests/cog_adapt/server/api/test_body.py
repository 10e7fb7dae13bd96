"""What is read from a body, and which bodies are refused with what."""

import json
import signal
import tracemalloc

import pytest

from cog_adapt.server.api.body import MOST_LEVELS, check_id, count_of, fit_inputs, read_body
from cog_adapt.server.api.responses import STATUSES
from cog_adapt.server.errors import BodyError, InvalidRequest
from cog_adapt.server.schema.openapi import openapi_schema
from cog_adapt.server.schema.validation import InputValidator


def predict(text: str = "") -> str:
    return text


VALIDATOR = InputValidator(openapi_schema(predict), "Input", 1000)


def read(body):
    return read_body(body, "application/json", strict=False)


def refusal(body):
    with pytest.raises(BodyError) as caught:
        fit_inputs(VALIDATOR, bytes(read(body).input))
    return caught.value


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (b"9" * 100_000, "at most 4,300 digits"),
        (b"1e999", "at most 308 before its point. Write it shorter, or as a text in quotes"),
        (b'"\\ud800\\u0041"', "half of a surrogate pair (\\ud800 to \\udfff). Leave it out"),
        (b'"\\ud800"', "or a surrogate pair (\\ud800 to \\udfff) in a text, is cut off"),
    ],
)
def test_what_to_do_about_digits_and_half_pairs_is_said(value, says):
    with pytest.raises(BodyError) as caught:
        fit_inputs(VALIDATOR, bytes(read(b'{"input":{"a":' + value + b"}}").input))
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("body", "location"),
    [
        (b"[]", ("body",)),
        (b'{"id":5}', ("body", "id")),
        (b'{"webhook_events_filter":["START"]}', ("body", "webhook_events_filter", "0")),
        (b'{"context":{"a":5}}', ("body", "context")),
    ],
)
def test_json_of_another_shape_is_422_and_names_the_place(body, location):
    found = refusal(body)
    assert (STATUSES[type(found)], found.location, found.kind) == (422, location, "type_error")


@pytest.mark.parametrize("key", ["id", "input", "webhook", "context", "retries"])
def test_a_key_twice_in_the_envelope_is_422(key):
    value = {"id": '"a"', "webhook": '"a"', "retries": "1"}.get(key, "{}")
    found = refusal(f'{{"{key}" :{value}, "{key}": {value}}}'.encode())
    assert (STATUSES[type(found)], found.location) == (422, ("body", key))
    assert f"duplicate field `{key}`" in str(found)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/b", "a b", "a\n", "é", "_a", "-a", "a" * 129, "a\0", "a%2F"]
)
def test_ids_that_are_not(name):
    with pytest.raises(InvalidRequest) as caught:
        check_id(name)
    assert (STATUSES[type(caught.value)], caught.value.location) == (422, ("body", "id"))
    assert "1 to 128" in str(caught.value)


def nested(levels):
    """A body of so many levels."""
    return b'{"input":' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"


@pytest.mark.parametrize("count", [0, 1, 999, 1_000, 1_001, 5_000])
def test_bytes_are_counted_whether_they_are_few_or_many(count):
    content = b"a" + b",ab" * count
    assert count_of(content, b",") == content.count(b",") == count


def test_a_key_counts_once_though_the_inputs_begin_as_another_member_does():
    long = "a" * 1_000
    other, inputs = (json.dumps({"text": long + end, "id": "b"}) for end in "bc")
    twice = f'{{"other":{other},"input":{inputs},"id":"c"'
    assert read(f"{twice}}}".encode()).id == "c"
    with pytest.raises(BodyError, match="duplicate field `id`"):
        read(f'{twice},"id":"d"}}'.encode())


def test_objects_count_as_levels_too():
    deep = b'{"a":' * MOST_LEVELS + b"1" + b"}" * MOST_LEVELS
    assert read(b'{"id":"a","x":[]}')
    assert read(deep)
    assert STATUSES[type(refusal(b'{"input":' + deep + b"}"))] == 400


def test_brackets_in_strings_are_no_levels():
    text = json.dumps({"input": {"text": '["\\' * 200}})
    assert read(text.encode())


def test_brackets_side_by_side_are_no_levels():
    assert read(b'{"input":[' + b"[],{}," * 200 + b"1]}")


def test_a_long_string_among_many_brackets_takes_no_memory():
    body = b'{"input":{"input":"' + b"x" * 4_000_000 + b'","b":[' + b"[]," * 200 + b"1]}}"
    tracemalloc.start()
    read(body)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * len(body)


def test_a_string_that_never_ends_is_read_once():
    def give_up(*_):
        raise AssertionError("the time is not linear")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(20)
    try:
        assert STATUSES[type(refusal(b'{"a":[' + b"[]," * 200 + b'"' + b'\\"' * 1_000_000))] == 400
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    "body",
    [
        b'{"input":{"input":1,"id":"id","id":2}}',
        b'{"context":{"id":"x"},"id":"a","other":{"id":1}}',
        b'{"other":{"id":1},"other":{"id":2},"id":"a"}',
        b'{"input":{"text":"{\\"id\\":1, \\"id\\":"},"id":"a","other":["id"]}',
        b'{"id":"id"}',
    ],
)
def test_a_key_twice_elsewhere_is_not(body):
    assert read(body)


def test_of_a_key_that_comes_twice_also_one_hides_behind_others_that_do():
    body = b'{"other":{"id":1},"id":"a","other":{"id":"}"},"id":"b"}'
    assert refusal(body).location == ("body", "id")

"""What is read from a body, and which bodies are refused with what."""

import json
import signal
import tracemalloc

import pytest
from cog import Secret

from cog_adapt.server.api.body import (
    MOST_LEVELS,
    check_id,
    find_duplicate,
    fit_inputs,
    levels,
    read_body,
)
from cog_adapt.server.api.responses import STATUSES
from cog_adapt.server.errors import BodyError, InvalidRequest
from cog_adapt.server.schema.openapi import openapi_schema
from cog_adapt.server.schema.problems import InvalidInputs
from cog_adapt.server.schema.validation import REDACTED, InputValidator
from cog_adapt.server.service.prediction import ALL_EVENTS, digest_of

JSON = "application/json"


def predict(text: str = "", secret: Secret = None) -> str:
    return text


VALIDATOR = InputValidator(openapi_schema(predict), "Input", 1000)


def read(body, content_type=JSON, *, strict=False):
    return read_body(body, content_type, strict=strict)


def refusal(body, content_type=JSON, **options):
    with pytest.raises(BodyError) as caught:
        fit_inputs(VALIDATOR, bytes(read(body, content_type, **options).input))
    return caught.value


def test_all_of_an_envelope_is_read():
    body = {
        "id": "a",
        "input": {"text": "é"},
        "webhook": "http://x",
        "webhook_events_filter": ["logs", "logs"],
        "context": {"k": "v"},
        "retries": 2,
        "created_at": 5,
    }
    request_body = read(json.dumps(body).encode())
    assert (request_body.id, request_body.webhook, request_body.retries) == ("a", "http://x", 2)
    assert (request_body.context, request_body.events) == ({"k": "v"}, {"logs"})
    assert json.loads(bytes(request_body.input)) == {"text": "é"}


def test_an_empty_envelope_asks_for_all_events_and_has_no_input():
    request_body = read(b"{}")
    assert (request_body.id, request_body.webhook, request_body.events) == (None, None, ALL_EVENTS)
    assert not request_body.has_input


def test_null_is_no_input_and_an_empty_filter_no_event():
    request_body = read(b'{"input":null,"id":null,"webhook":null,"webhook_events_filter":[]}')
    assert (request_body.has_input, request_body.events) == (True, frozenset())


@pytest.mark.parametrize("content", [b"", b"null", b"{}"])
def test_nothing_and_null_count_as_no_inputs(content):
    assert fit_inputs(VALIDATOR, content) == (b"{}", None, digest_of(b"{}"))


def test_inputs_that_fit_are_sorted_and_their_secrets_starred_out():
    known, redacted, digest = fit_inputs(VALIDATOR, b'{"text":"t","secret":"s"}')
    assert known == b'{"secret":"s","text":"t"}'
    assert redacted == f'{{"secret":"{REDACTED}","text":"t"}}'.encode()
    assert digest == digest_of(known)


def test_inputs_that_do_not_fit_are_refused():
    with pytest.raises(InvalidInputs):
        fit_inputs(VALIDATOR, b'{"text":5}')


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "APPLICATION/JSON; charset=latin1",
        "application/vnd.x+json",
        "application/problem+json; a=b",
    ],
)
def test_types_that_are_json(content_type):
    assert read(b'{"id":"a"}', content_type).id == "a"


@pytest.mark.parametrize(
    "content_type",
    ["text/json", "text/plain", "", "application/+json", "xapplication/json", "application/jsonx"],
)
def test_types_that_are_not(content_type):
    assert STATUSES[type(refusal(b"{}", content_type))] == 415


def test_without_a_type_cog_reads_nothing_and_the_mirror_reads_json():
    assert read(b"not json", None, strict=True).id is None
    assert read(b'{"id":"a"}', None).id == "a"
    assert read(b"", None).id is None
    assert STATUSES[type(refusal(b"not json", None))] == 400


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"{} x",
        b'\xef\xbb\xbf{"id":"a"}',
        b'{"input":{},}',
        b"{'id':'a'}",
        b'{"input":{"a":NaN}}',
        b'{"input":{"a":1e999}}',
        b'{"input":{"text":"\xff"}}',
        b'{"input":{"\xff":1}}',
        b'{"id":"\xff"}',
        b'{"input":{"text":"\\ud800"}}',
        b'{"input":{"text":"a\nb"}}',
    ],
)
def test_what_is_not_json_is_400(body):
    found = refusal(body)
    assert (STATUSES[type(found)], found.location) == (400, ())
    assert str(found).startswith("Failed to parse the request body as JSON: ")


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
        (b'"x"', ("body",)),
        (b"null", ("body",)),
        (b'{"id":5}', ("body", "id")),
        (b'{"webhook":{}}', ("body", "webhook")),
        (b'{"webhook_events_filter":null}', ("body", "webhook_events_filter")),
        (b'{"webhook_events_filter":["START"]}', ("body", "webhook_events_filter", "0")),
        (b'{"context":null}', ("body", "context")),
        (b'{"context":{"a":5}}', ("body", "context")),
        (b'{"retries":null}', ("body", "retries")),
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


@pytest.mark.parametrize("name", ["a", "0", "A.b_c~d-9", "a" * 128])
def test_ids_that_are_safe(name):
    check_id(name)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/b", "a b", "a\n", "é", "_a", "-a", "a" * 129, "a\0", "a%2F"]
)
def test_ids_that_are_not(name):
    with pytest.raises(InvalidRequest) as caught:
        check_id(name)
    assert (STATUSES[type(caught.value)], caught.value.location) == (422, ("body", "id"))
    assert "1 to 128" in str(caught.value)


def test_an_input_is_told_from_none():
    assert read(b'{"input":{}}').has_input
    assert not read(b'{"id":"a"}').has_input


def test_inputs_that_are_no_json_are_found_when_they_are_read():
    body = read(b'{"input":{"a":1e999}}')
    with pytest.raises(BodyError, match="Failed to parse the request body as JSON: "):
        fit_inputs(VALIDATOR, bytes(body.input))


def nested(levels):
    """A body of so many levels."""
    return b'{"input":' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"


def test_levels_are_bounded_as_in_cog():
    assert read(nested(MOST_LEVELS))
    found = refusal(nested(MOST_LEVELS + 1))
    assert (STATUSES[type(found)], MOST_LEVELS) == (400, 127)
    assert "127 levels" in str(found)


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


def test_brackets_that_are_never_closed_are_counted():
    assert "levels" in refusal(b'{"input":' + b"[" * 100_000).args[0]


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


@pytest.mark.parametrize(
    ("body", "depth"),
    [
        (b"[" * 127 + b"]" * 127, 0),  # too few brackets to be looked at
        (b"[" * 128 + b"]" * 128, 128),
        (b"[" * 500 + b"]" * 500, 500),
        (b'{"a":' * 64 + b"[" * 66, 130),
        (b"[" + b"{}," * 200 + b"1]", 2),
        (b'["' + b"[" * 200 + b'"]', 1),
    ],
)
def test_brackets_are_counted_where_there_are_many(body, depth):
    assert levels(body) == depth


KEYS = (b'"id"', b'"input"')


@pytest.mark.parametrize(
    ("body", "duplicate"),
    [
        (b'{"id":1,"id":2}', "id"),
        (b'{"input":1,"id":1,"id":2,"input":2}', "id"),
        (b'{"id" : 1, "x": {"id": 2}, "id": 3}', "id"),
        (b'{"id":1,"input":{"id":1,"id":2}}', None),
        (b'{"x":1,"x":2,"id":1}', None),
        (b'{"id":"id","x":["id","id"]}', None),
        (b'{"x":[{"id":1}],"y":{"id":2}}', None),
        (b"{}", None),
    ],
)
def test_the_first_key_that_comes_twice_is_found(body, duplicate):
    assert find_duplicate(body, KEYS, b"{}") == duplicate


def test_keys_in_the_largest_value_are_not_looked_at():
    inner = b'{"id":1,"id":2}'
    assert find_duplicate(b'{"id":1,"input":%b}' % inner, KEYS, inner) is None
    assert find_duplicate(b'{"id":1,"input":%b,"id":2}' % inner, KEYS, inner) == "id"

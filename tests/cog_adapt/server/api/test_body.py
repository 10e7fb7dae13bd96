"""What is read from a body, and which bodies are refused with what."""

import json

import pytest

from cog_adapt.server.api.body import check_id, read_body, read_input
from cog_adapt.server.api.responses import STATUSES
from cog_adapt.server.errors import BodyError, InvalidRequest
from cog_adapt.server.service.prediction import ALL_EVENTS

JSON = "application/json"


def read(body, content_type=JSON, *, strict=False):
    return read_body(body, content_type, strict=strict)


def refusal(body, content_type=JSON, **options):
    with pytest.raises(BodyError) as caught:
        read_input(read(body, content_type, **options))
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
    assert read_input(request_body) == {"text": "é"}


def test_an_empty_envelope_asks_for_all_events_and_has_no_input():
    request_body = read(b"{}")
    assert (request_body.id, request_body.webhook, request_body.events) == (None, None, ALL_EVENTS)
    assert read_input(request_body) == {}


def test_null_is_no_input_and_an_empty_filter_no_event():
    request_body = read(b'{"input":null,"id":null,"webhook":null,"webhook_events_filter":[]}')
    assert (read_input(request_body), request_body.events) == ({}, frozenset())


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
        read_input(body)

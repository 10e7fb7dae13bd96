"""From a request to what is to run, in the sequence of Cog's checks."""

import asyncio
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from cog import Secret
from starlette.requests import ClientDisconnect, Request

from cog_adapt.server.api.body import RequestBody
from cog_adapt.server.api.large_bodies import LargeBodies
from cog_adapt.server.api.preferences import Preferences
from cog_adapt.server.api.requests import RequestParser
from cog_adapt.server.api.responses import STATUSES
from cog_adapt.server.errors import InvalidRequest, NotReady, NotStreamable, ShapeError
from cog_adapt.server.middleware.keys import Key
from cog_adapt.server.protocol import OWNER_KEY
from cog_adapt.server.schema.openapi import openapi_schema
from cog_adapt.server.schema.problems import InvalidInputs
from cog_adapt.server.schema.validation import REDACTED, InputValidator
from cog_adapt.server.service.service import NOT_SET_UP
from tests.cog_adapt.present import NOT_USED


def test_trainings_whose_code_does_not_load_are_refused_with_the_place_of_the_reason():
    def predict() -> str:
        return ""

    def validator(_kind):
        return InputValidator(openapi_schema(predict), "TrainingInput", 1000)

    service: Any = SimpleNamespace(settings=SimpleNamespace(strict_cog=False), validator=validator)
    with pytest.raises(NotReady, match="trainings does not load.*setup.logs") as caught:
        RequestParser(service, NOT_USED, "train", "train", NOT_USED).digest(RequestBody())
    assert STATUSES[type(caught.value)] == 503


def predict(text: str, key: Secret = None) -> str:
    return text


class Service:
    """Stands for the service."""

    def __init__(self, *, strict=False, streams=False):
        self.settings = SimpleNamespace(strict_cog=strict)
        self.is_ready, self.is_closing, self.why_not_ready = True, False, "It rests."
        operation = {"post": {"x-cog-streaming": streams}}
        self.document = {"paths": {"/predictions": operation}}

    def schema(self):
        return self.document

    def validator(self, _kind):
        return InputValidator(openapi_schema(predict), "Input", 1000)


class Webhooks(Any):
    """Knows one URL that could be sent to."""

    def find_fault(self, url):
        return None if url == "http://good/" else "is not public"


def parser(kind="predict", runs="predict", **service):
    stands: Any = Service(**service)
    return RequestParser(stands, Webhooks(), kind, runs, LargeBodies())


def read(parser, content, prediction_id=None, content_type=b"application/json", key=None):
    pieces = content if isinstance(content, list) else [content]

    async def receive():
        if not pieces:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

    headers = [(b"content-type", content_type)] if content_type else []
    state = {"state": {"key": key}} if key else {}
    request = Request({"type": "http", "headers": headers, **state}, receive)
    return asyncio.run(parser.body(request, prediction_id))


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    "more", [b"", b',"cog_adapt.owner":"eve"', b',"cog_adapt.\\u006fwner":"eve"']
)
def test_the_owner_in_the_context_is_the_keys_or_none(strict, more):
    content = b'{"context":{"a":"1"' + more + b"}}"
    key = Key("laptop", frozenset({"predict"}), "", owner="ada")
    assert read(parser(strict=strict), content).context == {"a": "1"}
    assert read(parser(strict=strict), content, key=key).context == {"a": "1", OWNER_KEY: "ada"}
    bodiless = read(parser(strict=strict), b"", content_type=None, key=key)
    assert bodiless.context == {OWNER_KEY: "ada"}


def test_a_body_in_pieces_is_one():
    assert read(parser(), [b'{"id"', b":", b'"a"}']).id == "a"


def test_a_client_that_leaves_before_its_end_is_gone():
    with pytest.raises(ClientDisconnect):
        read(parser(), [])


def test_the_id_in_the_path_is_the_predictions():
    assert read(parser(), b"{}", "a").id == read(parser(), b'{"id":"a"}', "a").id == "a"
    with pytest.raises(InvalidRequest) as caught:
        read(parser("train"), b'{"id":"b"}', "a")
    assert str(caught.value) == "training ID must match the ID supplied in the URL"
    assert caught.value.location == ("body", "id")


def test_only_cog_takes_any_id():
    assert read(parser(strict=True), b'{"id":"a/b"}').id == "a/b"
    with pytest.raises(InvalidRequest, match="id is 'a/b'"):
        read(parser(), b'{"id":"a/b"}')


def test_cog_reads_no_body_without_its_type():
    assert read(parser(strict=True), b'{"id":"a"}', content_type=None).id is None
    assert read(parser(), b'{"id":"a"}', content_type=None).id == "a"


@pytest.mark.parametrize(
    ("retries", "is_allowed"), [(-1, False), (0, True), (10, True), (11, False)]
)
def test_retries_are_bounded(retries, is_allowed):
    content = b'{"retries":%d}' % retries
    if is_allowed:
        assert read(parser(), content).retries == retries
        return
    with pytest.raises(ShapeError) as caught:
        read(parser(), content)
    assert str(caught.value) == f"retries is {retries}; allowed: 0 to 10."
    assert caught.value.location == ("body", "retries")


def test_a_webhook_that_could_never_be_sent_is_refused_unless_cog_ignores_it():
    assert read(parser(), b'{"webhook":"http://good/"}').webhook == "http://good/"
    assert read(parser(strict=True), b'{"webhook":"x"}').webhook == "x"
    with pytest.raises(InvalidRequest) as caught:
        read(parser(), b'{"webhook":"x"}')
    assert (str(caught.value), caught.value.location) == (
        "webhook: is not public",
        ("body", "webhook"),
    )


def test_a_stream_needs_a_model_that_streams():
    wanted = Preferences(is_stream=True)
    parser(streams=True).check_stream(wanted)
    parser().check_stream(Preferences())
    with pytest.raises(NotStreamable, match="Add @cog.streaming"):
        parser().check_stream(wanted)
    with pytest.raises(NotStreamable, match="Training endpoints do not support"):
        parser("train", streams=True).check_stream(wanted)
    empty = parser()
    empty._service.document = {}
    with pytest.raises(NotStreamable):
        empty.check_stream(wanted)


CONTENT = RequestBody(
    id="a",
    input=msgspec.Raw(b'{"text":"t","key":"s"}'),
    webhook="http://good/",
    webhook_events_filter=["start"],
    context={"user": "u"},
    retries=2,
)
NOTHING = Preferences()
HEADERS = {"traceparent": "t", "tracestate": "s", "cookie": "c"}


def asked(body=CONTENT, preferences=NOTHING, **parts):
    return parser(**parts).prediction_request(body, HEADERS, preferences)


def test_what_is_asked_for_is_what_runs():
    request = asked(kind="predict", runs="train", preferences=Preferences(cancel_after=5.0))
    assert (request.id, request.kind, request.has_client_id) == ("a", "train", True)
    assert msgspec.json.decode(request.input) == {"key": "s", "text": "t"}
    assert msgspec.json.decode(request.redacted_input) == {"key": REDACTED, "text": "t"}
    assert (request.context, request.webhook) == ({"user": "u"}, "http://good/")
    assert (request.events, request.retries, request.timeout) == ({"start"}, 2, 5.0)
    assert request.headers == {"traceparent": "t", "tracestate": "s"}
    assert not request.repeatable
    assert parser().digest(CONTENT) == request.digest


def test_without_an_id_it_gets_one_and_without_a_secret_it_can_be_repeated():
    request = asked(RequestBody(input=msgspec.Raw(b'{"text":"t"}')))
    assert request.id.startswith("pred_")
    assert (request.has_client_id, request.repeatable) == (False, True)
    assert request.input is request.redacted_input


@pytest.mark.parametrize(
    ("preferences", "webhook", "durable"),
    [
        (Preferences(), None, False),
        (Preferences(is_stream=True), None, False),
        (Preferences(is_async=True), None, True),
        (Preferences(wait=0.0), None, True),
        (Preferences(), "http://good/", True),
    ],
)
def test_what_nobody_waits_for_outlives_the_server(preferences, webhook, durable):
    body = RequestBody(input=msgspec.Raw(b'{"text":"t"}'), webhook=webhook)
    assert asked(body, preferences).durable is durable


@pytest.mark.parametrize(("is_ready", "is_closing"), [(False, False), (True, True)])
@pytest.mark.parametrize(("strict", "words"), [(False, "It rests."), (True, NOT_SET_UP)])
def test_a_server_that_cannot_run_now_says_why_before_it_looks_at_inputs(
    is_ready, is_closing, strict, words
):
    one = parser(strict=strict)
    one._service.is_ready, one._service.is_closing = is_ready, is_closing
    with pytest.raises(NotReady) as caught:
        one.prediction_request(RequestBody(), {}, Preferences())
    assert str(caught.value) == words


def test_inputs_that_do_not_fit_are_listed():
    with pytest.raises(InvalidInputs) as caught:
        asked(RequestBody(input=msgspec.Raw(b'{"text":5}')))
    assert [problem.loc for problem in caught.value.problems] == [("body", "input", "text")]
    assert str(caught.value) == "1 inputs do not fit"

"""From a request to what is to run, in the sequence of Cog's checks."""

import asyncio
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from cog import Secret
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request

from cog_adapt.server.api.large_bodies import LargeBodies
from cog_adapt.server.api.requests import RequestParser, read_preferences
from cog_adapt.server.api.responses import STATUSES
from cog_adapt.server.errors import InvalidRequest, NotReady
from cog_adapt.server.schema.openapi import openapi_schema
from cog_adapt.server.schema.problems import Problem
from cog_adapt.server.schema.validation import InputValidator
from cog_adapt.server.service.prediction import PredictionSpec
from gradient_check.tests.present import NOT_USED

UNCHECKED = PredictionSpec("a", "predict", b"{}", b"", problems=None)
PROBLEM = Problem(("body", "input", "text"), "is no text")


def test_trainings_whose_code_does_not_load_are_refused_with_the_place_of_the_reason():
    def predict() -> str:
        return ""

    def validator(_kind):
        return InputValidator(openapi_schema(predict), "TrainingInput", 1000)

    service: Any = SimpleNamespace(settings=SimpleNamespace(strict_cog=False), validator=validator)
    with pytest.raises(NotReady, match="trainings does not load.*setup.logs") as caught:
        RequestParser(service, NOT_USED, "train", "train", NOT_USED).fitted(UNCHECKED)
    assert STATUSES[type(caught.value)] == 503


def predict(text: str, key: Secret = None) -> str:
    return text


class Service:
    """Stands for the service."""

    settings, is_ready, why_not_ready = SimpleNamespace(strict_cog=False), True, "It rests."

    def __init__(self, *, is_closing=False):
        self.is_closing = is_closing

    def schema(self):
        return {}

    def validator(self, _kind):
        return InputValidator(openapi_schema(predict), "Input", 1000)


class Webhooks(Any):
    """Could send to any URL."""

    def find_fault(self, _url):
        return None


def parser(runs="predict", **service):
    stands: Any = Service(**service)
    return RequestParser(stands, Webhooks(), "predict", runs, LargeBodies())


def read(parser, content, prediction_id=None, content_type=b"application/json", **more):
    pieces = content if isinstance(content, list) else [content]

    async def receive():
        if not pieces:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

    headers = [(b"content-type", content_type)] if content_type else []
    headers += [(name.replace("_", "-").encode(), text.encode()) for name, text in more.items()]
    request = Request({"type": "http", "headers": headers}, receive)
    return asyncio.run(parser.read(request, prediction_id))


def test_a_client_that_leaves_before_its_end_is_gone():
    with pytest.raises(ClientDisconnect):
        read(parser(), [])


def test_what_runs_has_the_kind_that_is_served_and_of_the_headers_those_of_traces_alone():
    request = read(parser(runs="train"), b"{}", traceparent="t", tracestate="s", cookie="c")
    assert (request.kind, request.headers) == ("train", {"traceparent": "t", "tracestate": "s"})


@pytest.mark.parametrize(
    ("headers", "webhook", "durable"),
    [
        ({}, "", False),
        ({"accept": "text/event-stream"}, "", False),
        ({"prefer": "respond-async"}, "", True),
        ({"prefer": "wait=0"}, "", True),
        ({}, ',"webhook":"http://good/"', True),
    ],
)
def test_what_nobody_waits_for_outlives_the_server(headers, webhook, durable):
    content = f'{{"input":{{"text":"t"}}{webhook}}}'.encode()
    assert read(parser(), content, **headers).durable is durable


def test_a_server_that_is_closing_says_so_before_it_looks_at_inputs():
    for request in (UNCHECKED, msgspec.structs.replace(UNCHECKED, problems=[PROBLEM])):
        with pytest.raises(NotReady, match="It rests"):
            parser(is_closing=True).checked(request)


WHOLE, AT_ONCE = (False, False, None), (False, True, None)


@pytest.mark.parametrize(
    ("prefer", "expected"),
    [
        ("foo, respond-async ", AT_ONCE),
        ("WAIT=0", (False, False, 0.0)),
        ("wait=5, respond-async", (False, False, 5.0)),
        ("wait=-1", WHOLE),
        ("wait=x, respond-async", AT_ONCE),
        ("respond-asynchronously", WHOLE),
    ],
)
def test_the_mirror_reads_preferences(prefer, expected):
    assert read_preferences(Headers({"prefer": prefer}), strict=False) == expected


def test_of_several_headers_of_one_name_the_first_counts():
    raw = [(b"prefer", b"respond-async"), (b"prefer", b"wait=5"), (b"accept", b"\xe9")]
    assert read_preferences(Headers(raw=raw), strict=False) == AT_ONCE


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30", 30), ("30s", 30), ("5m", 300), ("1h", 3600), ("250ms", 0.25), ("0.5", 0.5)]
    + [("1.5m", 90.0), ("0.001h", 3.6), ("1ms", 0.001), ("1.125h", 4050), ("999999s", 999_999)],
)
def test_cancel_after_is_a_time(text, seconds):
    assert read(parser(), b"{}", cancel_after=text).timeout == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text",
    [
        *("", "0", "0s", "0.000s", "-1", "1d", "1e9", "inf", "soon", "1 s", "1000000", "٣"),
        *("01s", "1.1234s", ".5", "1.s"),
    ],
)
def test_what_is_no_time_is_refused_with_the_remedy(text):
    with pytest.raises(InvalidRequest, match="30s, 5m or 1h") as caught:
        read(parser(), b"{}", cancel_after=text)
    assert (STATUSES[type(caught.value)], caught.value.location) == (
        422,
        ("header", "cancel-after"),
    )

"""The requests of a snapshot: every route with every method, and right and wrong bodies."""

from collections.abc import Iterator
from dataclasses import dataclass, field

METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS")
KNOWN = {"predictions": "known-prediction", "trainings": "known-training"}
SAY: dict[str, object] = {"input": {"action": "say"}}
_INPUTS: dict[str, dict[str, object]] = {"predictions": SAY, "trainings": {"input": {"name": "n"}}}
_STATE = (
    *("/", "/health-check", "/healthz", "/readyz", "/openapi.json", "/selftest", "/metrics"),
    *("/docs", "/docs/swagger-ui.css", "/docs/nothing", "/nowhere", "/predictions/", "//"),
)
_BELOW = ("", "/cancel", "/events", "/stream", "/deliveries", "/deliveries/none/redeliver", "/no")


@dataclass(frozen=True)
class Case:
    """One request.

    Attributes:
        name: describes the request.
    """

    name: str
    method: str
    path: str
    body: object = None
    headers: dict[str, str] = field(default_factory=dict)


def walk(caller: str) -> Iterator[Case]:
    """Yield requests of every route; the ids of new predictions contain the caller."""
    for path in _paths(caller):
        noun = path.split("/")[1]
        for method in METHODS:
            body = _INPUTS.get(noun) if method in ("POST", "PUT") else None
            yield Case(f"{method} {path}", method, path, body)


def _paths(caller: str) -> Iterator[str]:
    yield from _STATE
    for noun, known in KNOWN.items():
        yield f"/{noun}"
        for name in ("no-such-id", known, f"new-{caller}"):
            yield from (f"/{noun}/{name}{below}" for below in _BELOW)


def envelopes() -> Iterator[Case]:
    """Yield requests with right and wrong bodies, headers and queries."""
    for name, body in _BODIES.items():
        yield Case(f"POST /predictions, {name}", "POST", "/predictions", body)
    for name, headers in _HEADERS.items():
        yield Case(f"POST /predictions, {name}", "POST", "/predictions", SAY, headers)
    for query in _QUERIES:
        yield Case(f"GET /predictions?{query}", "GET", f"/predictions?{query}")
    known = f"/predictions/{KNOWN['predictions']}"
    other = {"input": {"text": "another"}}
    yield Case("PUT of a known id, another input", "PUT", known, other)
    yield Case("PUT of a known id, another id inside", "PUT", known, {**SAY, "id": "no"})
    yield Case("PUT of a training's id", "PUT", f"/predictions/{KNOWN['trainings']}", SAY)
    yield Case("PUT of a bad id", "PUT", "/predictions/" + "x" * 300, SAY)
    for number in ("1", "-1", "x", "999"):
        headers = {"last-event-id": number}
        yield Case(f"events after {number}", "GET", f"{known}/events", None, headers)
    yield Case("metrics, OpenMetrics", "GET", "/metrics", None, _OPENMETRICS)


_OPENMETRICS = {"accept": "application/openmetrics-text; version=1.0.0"}
_BODIES: dict[str, object] = {
    "no body": None,
    "empty body": b"",
    "no JSON": b"{",
    "no UTF-8": b'{"input": {"text": "\xff"}}',
    "a list": [],
    "null": b"null",
    "empty object": {},
    "input is null": {"input": None},
    "input is a list": {"input": []},
    "unknown input": {"input": {"nothing": 1}},
    "wrong type": {"input": {"text": 1}},
    "two wrong": {"input": {"seconds": "x", "action": "none"}},
    "out of range": {"input": {"seconds": 99}},
    "no such choice": {"input": {"action": "sing"}},
    "NaN": b'{"input": {"seconds": NaN}}',
    "deep": b'{"input": ' + b"[" * 2000 + b"]" * 2000 + b"}",
    "unknown field": {**SAY, "colour": "red"},
    "id is a number": {**SAY, "id": 7},
    "id is empty": {**SAY, "id": ""},
    "id is long": {**SAY, "id": "x" * 300},
    "id has a slash": {**SAY, "id": "a/b"},
    "webhook is no URL": {**SAY, "webhook": "nowhere"},
    "webhook is private": {**SAY, "webhook": "http://10.0.0.1/hook"},
    "no such event": {**SAY, "webhook_events_filter": ["never"]},
    "output_file_prefix": {**SAY, "output_file_prefix": "http://10.0.0.1/"},
    "context": {**SAY, "context": {"a": "b"}},
    "context is a list": {**SAY, "context": []},
    "it fails": {"input": {"action": "fail"}},
}
_HEADERS: dict[str, dict[str, str]] = {
    "respond-async": {"prefer": "respond-async"},
    "wait": {"prefer": "wait"},
    "wait=60": {"prefer": "wait=60"},
    "wait=x": {"prefer": "wait=x"},
    "stream": {"accept": "text/event-stream"},
    "Cancel-After": {"cancel-after": "30s"},
    "Cancel-After is no time": {"cancel-after": "soon"},
    "text": {"content-type": "text/plain"},
    "form": {"content-type": "application/x-www-form-urlencoded"},
    "trace": {"traceparent": "00-" + "1" * 32 + "-" + "2" * 16 + "-01"},
    "origin": {"origin": "https://example.com"},
}
_QUERIES = (
    *("limit=1", "limit=0", "limit=x", "limit=1001", "status=succeeded", "status=failed,canceled"),
    *("status=lost", "cursor=nothing", "colour=red"),
)

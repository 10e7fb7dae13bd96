"""The requests of the snapshot: each route by each caller, and right and wrong bodies."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import httpx2

from cog_adapt import Settings, create_app
from tests.cog_adapt.server.routes_walk import routes_of
from tests.contract_snapshot.shipped_server import CALLERS, ShippedServer

METHODS = {"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"}
ROWS = [{"text": f"parcel {n}", "label": "late"} for n in range(6)]
ROWS += [{"text": f"refund {n}", "label": "money"} for n in range(6)]
SAY: dict[str, Any] = {"text": "Where is it?", "labels": ["late", "money"]}
LEARN: dict[str, Any] = {"examples": ROWS, "method": "bias", "steps": 1, "hold_out": 0.0}
_BODIES = {"predictions": {"input": SAY}, "trainings": {"input": LEARN}}
_SKIPPED = {("POST", "/selftest", "admin"), ("POST", "/shutdown", "admin")}  # minutes; the end


def ask_routes(server: ShippedServer, ids: dict[str, str], adapter: bytes) -> Iterator[str]:
    """Ask every route by every caller. Yield a line of statuses for each."""
    served, of_cog = _routes_of(Settings()), _routes_of(Settings(strict_cog=True))
    yield from (f"{route}: not without STRICT_COG" for route in of_cog.keys() - served.keys())
    for route, methods in served.items():
        for method in methods:
            make_known(server, ids, adapter)
            told = (f"{who} {_status(server, method, route, who, ids, adapter)}" for who in CALLERS)
            is_of_cog = " (STRICT_COG too)" if method in of_cog.get(route, ()) else ""
            yield f"{route} {method}{is_of_cog} | {' | '.join(told)}"
        yield from _ask_others(server, route, methods, ids)


def _routes_of(settings: Settings) -> dict[str, list[str]]:
    """Return the methods by route; HEAD is there wherever GET is."""
    found: dict[str, list[str]] = defaultdict(list)
    for method, path in routes_of(create_app(settings)):
        if method != "HEAD":
            found[_named(path)].append(method)
    return found


def _named(path: str) -> str:
    return path.replace("some-id", "{id}", 1).replace("some-id", "{delivery}")


def _status(
    server: ShippedServer, method: str, route: str, who: str, ids: dict[str, str], adapter: bytes
) -> str:
    if (method, route, who) in _SKIPPED:
        return "not asked"
    noun = route.split("/")[1]
    if method == "DELETE":
        make_known(server, ids, adapter)
    known = {"id": ids.get(noun, "none"), "delivery": "none"}
    answer = server.ask(method, route, known, caller=who, body=_body(method, route, adapter))
    return str(answer.status_code)


def _body(method: str, route: str, adapter: bytes) -> object:
    noun, is_whole = route.split("/")[1], route.count("/") == 1 or method == "PUT"
    if noun == "adapters":
        return {"POST": adapter, "PATCH": {"notes": "seen"}}.get(method)
    return _BODIES.get(noun) if method in ("POST", "PUT") and is_whole else None


def make_known(server: ShippedServer, ids: dict[str, str], adapter: bytes) -> None:
    """Make the records and the adapter that the routes name, where they are gone."""
    for noun, body in _BODIES.items():
        server.ask("PUT", f"/{noun}/{{id}}", {"id": ids[noun]}, body=body)
    if adapter:
        server.ask("POST", "/adapters", body=adapter)


def _ask_others(
    server: ShippedServer, route: str, known: list[str], ids: dict[str, str]
) -> Iterator[str]:
    """Ask by the methods that a route does not have. Yield what is not 405 with those it has."""
    place = {"id": ids.get(route.split("/")[1], "none"), "delivery": "none"}
    allowed = {*known, *(["HEAD"] if "GET" in known else [])}
    for method in METHODS - allowed:
        answer = server.ask(method, route, place)
        told = answer.headers.get("allow", "nothing")
        if (answer.status_code, {*told.split(",")}) != (httpx2.codes.METHOD_NOT_ALLOWED, allowed):
            yield f"{route} {method} | {answer.status_code}, allow {told}"


def ask_cases(server: ShippedServer) -> Iterator[str]:
    """Send right and wrong bodies and headers. Yield what each is answered with."""
    for name, body in _WRONG.items():
        yield f"body: {name}: {_told(server, body=body)}"
    for name, headers in _HEADERS.items():
        yield f"header: {name}: {_told(server, headers=headers)}"


def _told(
    server: ShippedServer,
    body: object = _BODIES["predictions"],
    headers: dict[str, str] | None = None,
) -> str:
    answer = server.ask("POST", "/predictions", body=body, headers=headers)
    if answer.status_code == httpx2.codes.ACCEPTED:  # else what is listed later depends on time
        server.wait_for_end(f"/predictions/{answer.json()['id']}")
    return f"{answer.status_code} {answer.headers.get('content-type', 'no body')}"


_WRONG: dict[str, object] = {
    "no JSON": b"{",
    "unknown input": {"input": {"nothing": 1}},
    "no such adapter": {"input": {"text": "a", "adapter": "none"}},
    "a large body": {"input": {"texts": ["x" * 90_000] * 3}},
    "webhook is private": {"input": SAY, "webhook": "http://10.0.0.1/hook"},
    "webhook is not received": {"input": SAY, "webhook": "http://127.0.0.1:9/hook"},
    "adaptation": {"input": SAY | {"examples": ROWS, "method": "bias", "steps": 1}},
}
_HEADERS: dict[str, dict[str, str]] = {
    "respond-async": {"prefer": "respond-async"},
    "stream": {"accept": "text/event-stream"},
    "Cancel-After is no time": {"cancel-after": "soon"},
    "text": {"content-type": "text/plain"},
    "origin": {"origin": "https://example.com"},
}

import asyncio
from typing import Any

import pytest
from fastapi import APIRouter, FastAPI
from fastapi.testclient import TestClient
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from cog_adapt.server.middleware.metrics import MetricsMiddleware
from cog_adapt.server.telemetry.metrics import Metrics
from gradient_check.tests.present import NOT_USED


@pytest.fixture
def metrics():
    return Metrics()


@pytest.fixture
def client(metrics):
    app, router = FastAPI(), APIRouter(prefix="/trainings")

    @app.get("/predictions/{id}")
    async def get(id: str):
        return id

    @router.get("/{id}")
    async def get_training(id: str):
        return id

    @app.post("/broken")
    async def fail():
        raise RuntimeError

    async def end(request):
        return PlainTextResponse("")

    for kind in ("predictions", "trainings"):
        app.add_route(f"/{kind}/{{id}}/cancel", end, methods=["POST"])
    app.add_route("/alone", lambda _: PlainTextResponse(""), methods=["POST"])
    app.include_router(router)
    app.add_middleware(MetricsMiddleware, metrics=metrics)
    return TestClient(app, raise_server_exceptions=False)


def count(metrics, method, route, status):
    labels = {"method": method, "route": route, "status": status}
    return metrics.registry.get_sample_value("cog_http_requests_total", labels)


def test_requests_count_by_the_template_of_their_route(client, metrics):
    for path in ("/predictions/a", "/predictions/b", "/trainings/c"):
        client.get(path)
    assert count(metrics, "GET", "/predictions/{id}", "200") == 2
    assert count(metrics, "GET", "/trainings/{id}", "200") == 1
    labels = {"method": "GET", "route": "/predictions/{id}"}
    name = "cog_http_request_duration_seconds_count"
    assert metrics.registry.get_sample_value(name, labels) == 2


def test_routes_of_starlette_count_by_their_templates_too(client, metrics):
    for path in ("/predictions/a/cancel", "/predictions/b/cancel", "/trainings/c/cancel"):
        client.post(path)
    assert count(metrics, "POST", "/predictions/{id}/cancel", "200") == 2
    assert count(metrics, "POST", "/trainings/{id}/cancel", "200") == 1


def test_a_wrong_method_does_not_count_as_the_route_before_or_after(client, metrics):
    for method in ("DELETE", "POST", "DELETE", "POST"):
        client.request(method, "/alone")
    assert count(metrics, "POST", "/alone", "200") == 2
    assert count(metrics, "DELETE", "other", "405") == 2


def test_unknown_paths_and_methods_are_other(client, metrics):
    for number in range(3):
        client.get(f"/no/such/{number}")
        client.request(f"ODD{number}", "/no")
    assert count(metrics, "GET", "other", "404") == 3
    assert count(metrics, "other", "other", "404") == 3


def test_an_error_counts_as_500(client, metrics):
    assert client.post("/broken").status_code == 500
    assert count(metrics, "POST", "/broken", "500") == 1


def test_what_the_application_raises_passes_through(metrics):
    async def app(scope, receive, send):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        asyncio.run(
            MetricsMiddleware(app, metrics)({"type": "http", "method": "GET"}, NOT_USED, NOT_USED)
        )
    assert count(metrics, "GET", "other", "500") == 1


def test_a_client_that_left_before_its_answer_counts_as_499(metrics):
    async def app(scope, receive, send):
        pass

    asyncio.run(
        MetricsMiddleware(app, metrics)({"type": "http", "method": "GET"}, NOT_USED, NOT_USED)
    )
    assert count(metrics, "GET", "other", "499") == 1


def test_the_lifespan_is_not_a_request(metrics):
    seen = []

    async def app(scope, receive, send):
        seen.append(scope["type"])

    asyncio.run(MetricsMiddleware(app, metrics)({"type": "lifespan"}, NOT_USED, NOT_USED))
    assert seen == ["lifespan"]


def test_a_route_that_has_an_endpoint_alone_is_searched_once(client, metrics, monkeypatch):
    matches, searches = Route.matches, 0

    def count_searches(route, scope):
        nonlocal searches
        searches += 1
        return matches(route, scope)

    monkeypatch.setattr(Route, "matches", count_searches)
    client.post("/alone")
    first, searches = searches, 0
    client.post("/alone")
    assert searches == first - 1  # the router alone
    assert count(metrics, "POST", "/alone", "200") == 2


def test_an_id_with_an_encoded_slash_counts_under_its_route(client, metrics):
    assert client.get("/predictions/a%2Fb").json() == "a%2Fb"
    assert count(metrics, "GET", "/predictions/{id}", "200") == 1


HTTP: dict[str, Any] = {"type": "http", "method": "GET"}


def scope_after(scope):
    """The scope that the application behind the middleware gets, and the one that was given."""
    seen = []

    async def app(scope, receive, send):
        seen.append(scope)

    middleware: Any = MetricsMiddleware(app, Metrics())
    asyncio.run(middleware(scope, "receive", "send"))
    return seen[0]


def test_an_encoded_slash_stays_encoded():
    before = HTTP | {"path": "/predictions/a/b", "raw_path": b"/predictions/a%2Fb"}
    after = scope_after(before)
    assert after == {**before, "path": "/predictions/a%2Fb"}
    assert before["path"] == "/predictions/a/b"  # whoever stands before it keeps what it knew


def test_a_path_that_is_no_ascii_is_no_fault():
    after = scope_after(HTTP | {"path": "x", "raw_path": b"/a%20\xff"})
    assert after["path"] == "/a%20\ufffd"


@pytest.mark.parametrize(
    "scope",
    [
        HTTP | {"path": "/plain", "raw_path": b"/plain"},
        HTTP | {"path": "/100%", "raw_path": None},
        {"type": "lifespan"},
    ],
)
def test_anything_else_passes_untouched(scope):
    assert scope_after(scope) is scope

"""Which key opens which route."""

import pytest

from cog_adapt.server.app import create_app
from cog_adapt.server.middleware.access import ANY_KEY, NEEDS, OPEN, need_of
from cog_adapt.server.settings import Settings
from tests.cog_adapt.server.routes_walk import routes_of


@pytest.mark.parametrize(
    ("request_line", "need"),
    [
        ("GET /", "any"),
        ("HEAD /health-check", "any"),
        ("GET /selftest", "any"),
        ("POST /selftest", "admin"),
        ("POST /shutdown", "admin"),
        ("GET /metrics", "any"),
        ("POST /predictions", "predict"),
        ("PUT /predictions/x", "predict"),
        ("HEAD /predictions/x", "predict"),
        ("POST /predictions/x/cancel", "predict"),
        ("GET /predictions/x/events", "predict"),
        ("POST /predictions/x/deliveries/1/redeliver", "predict"),
        ("POST /predictions/x/deliveries//redeliver", "admin"),
        ("DELETE /predictions/x", "predict"),
        ("DELETE /trainings/x", "train"),
        ("DELETE /predictions", "admin"),
        ("DELETE /owners/x/data", "any"),
        ("GET /owners/x/data", "admin"),
        ("GET /predictions/", "admin"),
        ("POST /predictions/a/b/cancel", "admin"),
        ("GET /predictions/a/b/events", "admin"),
        ("POST /predictions//cancel", "admin"),
        ("PUT /trainings/x", "train"),
        ("POST /trainings/x/cancel", "train"),
        ("GET /trainings/x/deliveries", "train"),
        ("GET /not-thought-of", "admin"),
        ("OPTIONS *", "admin"),
    ],
)
def test_what_a_request_needs(request_line, need):
    assert need_of(*request_line.split()) == need


@pytest.fixture
def real_app(key_file):
    return create_app(Settings(api_keys_file=key_file))


def test_the_routes_of_the_server_that_only_admin_may_use_are_these(real_app):
    routes = routes_of(real_app)
    assert ("PUT", "/predictions/some-id") in routes
    assert {" ".join(route) for route in routes if need_of(*route) == "admin"} == {
        "GET /healthz",  # open, before the table is asked
        "HEAD /healthz",
        "POST /selftest",
        "POST /shutdown",
    }


def test_the_table_names_no_route_that_the_server_lacks(real_app):
    routes = {f"{method} {path}".replace("some-id", "{id}") for method, path in routes_of(real_app)}
    assert set(NEEDS) <= routes


@pytest.mark.parametrize(("noun", "scope"), [("predictions", "predict"), ("trainings", "train")])
def test_what_runs_and_looks_up_needs_the_scope_of_its_kind(noun, scope):
    assert {route for route in NEEDS if f"/{noun}" in route} == {
        f"GET /{noun}",
        f"POST /{noun}",
        f"GET /{noun}/{{id}}",
        f"PUT /{noun}/{{id}}",
        f"DELETE /{noun}/{{id}}",
        f"POST /{noun}/{{id}}/cancel",
        f"GET /{noun}/{{id}}/events",
        f"GET /{noun}/{{id}}/stream",
        f"GET /{noun}/{{id}}/deliveries",
        f"POST /{noun}/{{id}}/deliveries/{{id}}/redeliver",
    }
    assert {need for route, need in NEEDS.items() if f"/{noun}" in route} == {scope}


def test_adapters_need_the_scope_of_the_predictions_that_make_and_use_them():
    found = {route: need for route, need in NEEDS.items() if "/adapters" in route}
    assert found == dict.fromkeys(
        (
            *("GET /adapters", "POST /adapters", "GET /adapters/{id}", "PATCH /adapters/{id}"),
            *("DELETE /adapters/{id}", "GET /adapters/{id}/download"),
        ),
        "predict",
    )


def test_any_key_may_look_at_the_server_itself():
    paths = ("/", "/health-check", "/readyz", "/openapi.json", "/docs", "/docs/a.css")
    for path in (*paths, "/selftest", "/metrics"):
        assert (need_of("GET", path), need_of("HEAD", path), need_of("POST", path)) == (
            ANY_KEY,
            ANY_KEY,
            "admin",
        )


def test_only_liveness_needs_no_key_at_all():
    assert {"/healthz"} == OPEN

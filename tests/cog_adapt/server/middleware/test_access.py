"""Which key opens which route."""

import pytest

from cog_adapt.server.app import create_app
from cog_adapt.server.middleware.access import (
    NEEDS,
    OPEN,
    is_liveness,
    is_open,
    need_of,
    set_need,
)
from cog_adapt.server.settings import Settings
from tests.cog_adapt.server.routes_walk import routes_of


@pytest.mark.parametrize(
    ("request_line", "need"),
    [
        ("GET /", "any"),
        ("HEAD /health-check", "any"),
        ("GET /readyz", "any"),
        ("GET /openapi.json", "any"),
        ("GET /docs", "any"),
        ("GET /docs/a.css", "any"),
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


def test_a_route_of_ones_own_may_need_less():
    assert need_of("POST", "/v1/chat/completions") == "admin"
    set_need("POST /v1/chat/completions", "predict")
    assert need_of("POST", "/v1/chat/completions") == "predict"
    assert need_of("POST", "/v1/chat/other") == "admin"
    assert need_of("GET", "/v1/chat/completions") == "admin"
    set_need("GET /v1/models/{id}", "predict")
    assert need_of("GET", "/v1/models/support@v2") == "predict"
    for path in ("/v1/models", "/v1/models/", "/v1/models/a/b/c", "/v2/models/a"):
        assert need_of("GET", path) == "admin", path


@pytest.fixture
def real_app(key_file):
    return create_app(Settings(api_keys_file=key_file))


def test_the_routes_of_the_server_that_only_admin_may_use_are_these(real_app):
    routes = routes_of(real_app)
    assert ("PUT", "/predictions/some-id") in routes
    assert {" ".join(route) for route in routes if need_of(*route) == "admin"} == {
        "GET /healthz",  # open, before the table is asked
        "HEAD /healthz",
        "GET /playground",  # open, as the two below
        "HEAD /playground",
        "GET /playground/",
        "HEAD /playground/",
        "GET /playground/assets/some-id",
        "HEAD /playground/assets/some-id",
        "POST /selftest",
        "POST /shutdown",
        "GET /v1/webhooks/default/secret",
        "HEAD /v1/webhooks/default/secret",
    }


def test_the_table_names_no_route_that_the_server_lacks(real_app):
    routes = {f"{method} {path}".replace("some-id", "{id}") for method, path in routes_of(real_app)}
    assert set(NEEDS) <= routes


def asked(request_line, accept="*/*"):
    method, path = request_line.split()
    return {"method": method, "path": path, "headers": [(b"accept", accept.encode())]}


@pytest.mark.parametrize(
    "request_line",
    [
        *("GET /playground", "HEAD /playground", "GET /playground/"),
        *("GET /playground/assets/index-B1_2.js", "GET /healthz"),
        *("GET /readyz", "HEAD /readyz"),
    ],
)
def test_the_page_and_probes_need_no_key_at_all(request_line):
    assert {"/healthz"} == OPEN
    assert is_open(asked(request_line))
    assert is_liveness(asked(request_line)) is ("healthz" in request_line)


def test_the_root_is_open_to_browsers_for_which_it_is_the_page():
    assert is_open(asked("GET /", "text/html"))
    assert is_open(asked("HEAD /", "text/html"))
    assert not is_open(asked("GET /"))
    assert not is_open(asked("POST /", "text/html"))
    assert not is_liveness(asked("GET /", "text/html"))


@pytest.mark.parametrize(
    "request_line",
    [
        *(
            "POST /readyz",
            "GET /readyz/",
            "POST /playground",
            "OPTIONS /playground",
            "GET /playground/server.json",
        ),
        *("GET /playground/assets/", "GET /playground/assets/a/b", "GET /playgrounds"),
        *("GET /playground/assets/..%2fa", "GET /playground/assets/../a", "GET /predictions"),
        *("GET /playground/assets/a.js\n", "GET //playground", "GET /playground/assets"),
    ],
)
def test_a_browser_needs_a_key_for_everything_else(request_line):
    method, _, path = request_line.partition(" ")
    scope = asked("GET /x", "text/html") | {"method": method, "path": path}
    assert not is_open(scope)

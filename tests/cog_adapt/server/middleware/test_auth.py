import asyncio

import pytest
from fastapi import APIRouter, FastAPI
from starlette.responses import PlainTextResponse

from cog_adapt.server.app import create_app
from cog_adapt.server.errors import ConfigError
from cog_adapt.server.middleware.access import NEEDS, OPEN, need_of
from cog_adapt.server.middleware.auth import AuthMiddleware
from cog_adapt.server.middleware.body_limit import BodyLimitMiddleware
from cog_adapt.server.middleware.keys import KeyRing, make_key
from cog_adapt.server.middleware.stack import add_access_control, add_middleware
from cog_adapt.server.settings import Settings
from cog_adapt.server.telemetry.metrics import Metrics
from tests.cog_adapt.server.asgi_client import ask
from tests.cog_adapt.server.routes_walk import routes_of


@pytest.fixture(scope="module")
def made():
    return {scope: make_key(f"{scope}-user", [scope]) for scope in ("predict", "train", "admin")}


@pytest.fixture
def key_file(made, tmp_path):
    path = tmp_path / "keys"
    path.write_text("\n".join(line for _, line in made.values()))
    return path


@pytest.fixture
def bearer(made):
    return {scope: {"Authorization": f"Bearer {key}"} for scope, (key, _) in made.items()}


async def caller(scope, receive, send):
    await PlainTextResponse(scope.get("state", {}).get("caller", "nobody"))(scope, receive, send)


@pytest.fixture
def guarded(key_file):
    return AuthMiddleware(caller, KeyRing(key_file))


def test_without_a_key_every_route_but_liveness_is_401(guarded):
    answer = ask(guarded, "POST", "/predictions")
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.headers["content-type"] == "application/json"
    assert "Authorization: Bearer KEY" in answer.error


def test_liveness_needs_no_key(key_file):
    app = add_access_control(PlainTextResponse("alive"), Settings(api_keys_file=key_file))
    assert ask(app, "GET", "/healthz").status == 200
    assert ask(app, "GET", "/healthz/").status == 401
    assert ask(app, "GET", "/health-check").status == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer KEY"},
        {"Authorization": "bearer   KEY"},
        {"X-API-Key": "KEY"},
        {"Authorization": "Basic eDp5", "X-API-Key": "KEY"},
    ],
)
def test_a_key_opens_and_its_name_is_the_caller(guarded, made, headers):
    headers = {name: value.replace("KEY", made["predict"][0]) for name, value in headers.items()}
    answer = ask(guarded, "POST", "/predictions", headers)
    assert (answer.status, answer.body) == (200, b"predict-user")


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer "},
        {"Authorization": "KEY"},
        {"Authorization": "Basic KEY"},
        {"Authorization": "Bearer KEYx"},
        {"Authorization": "Bearer KEY KEY"},
        {"X-API-Key": ""},
        {"Cookie": "key=KEY"},
    ],
)
def test_anything_else_is_401(guarded, made, headers):
    headers = {name: value.replace("KEY", made["admin"][0]) for name, value in headers.items()}
    assert ask(guarded, "POST", "/predictions", headers).status == 401


def test_an_unknown_key_is_told_from_none(guarded):
    answer = ask(guarded, "GET", "/", {"X-API-Key": "ca_x"})
    assert answer.headers["www-authenticate"] == 'Bearer error="invalid_token"'
    assert "ca_x" not in answer.error


def test_a_key_of_another_scope_is_403_and_told_which_it_lacks(guarded, bearer):
    answer = ask(guarded, "POST", "/trainings", bearer["predict"])
    assert answer.status == 403
    assert "'predict-user' lacks the scope 'train'" in answer.error


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
        ("POST /predictions/x/deliveries/1/redeliver", "admin"),
        ("DELETE /predictions/x", "admin"),
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


@pytest.mark.parametrize("scope", ["predict", "train", "admin"])
def test_each_route_of_the_table_opens_to_its_scope_and_to_admin(guarded, bearer, scope):
    for route, need in NEEDS.items():
        status = ask(guarded, *route.replace("{id}", "x").split(), bearer[scope]).status
        assert status == (200 if need == "any" or scope in (need, "admin") else 403), route


def small_app():
    """Routes in all the ways that FastAPI has for them."""
    app, router, inner = FastAPI(), APIRouter(), FastAPI()
    inner.get("/deep")(lambda: "deep")
    router.get("/forgotten/{item}")(lambda item: item)
    app.include_router(router, prefix="/included")
    app.mount("/mounted", inner)
    app.get("/healthz")(lambda: "alive")
    app.post("/predictions/{id:path}")(lambda id: id)
    app.add_route("/plain", PlainTextResponse("plain"))
    return app


def assert_closed(app, door, bearer):
    """No route but liveness opens without a key, and one that the table lacks only to admin."""
    for method, path in routes_of(app):
        if path in OPEN:
            continue
        assert ask(door, method, path).status == 401, path
        if need_of(method, path) == "admin":
            assert ask(door, method, path, bearer["predict"]).status == 403, path


def test_no_route_is_open_by_being_forgotten(key_file, bearer):
    app = small_app()
    assert_closed(app, add_access_control(app, Settings(api_keys_file=key_file)), bearer)


@pytest.fixture
def real_app(key_file):
    return create_app(Settings(api_keys_file=key_file))


def test_no_route_of_the_server_is_open_but_liveness(real_app, bearer, key_file):
    settings = Settings(api_keys_file=key_file)
    assert_closed(real_app, add_middleware(real_app, settings, Metrics()), bearer)


def test_the_routes_of_the_server_that_only_admin_may_use_are_these(real_app):
    routes = routes_of(real_app)
    assert ("PUT", "/predictions/some-id") in routes
    assert {" ".join(route) for route in routes if need_of(*route) == "admin"} == {
        "GET /healthz",  # open, before the table is asked
        "HEAD /healthz",
        "POST /selftest",
        "POST /shutdown",
        "POST /predictions/some-id/deliveries/some-id/redeliver",
        "POST /trainings/some-id/deliveries/some-id/redeliver",
    }


def test_the_table_names_no_route_that_the_server_lacks(real_app):
    routes = {f"{method} {path}".replace("some-id", "{id}") for method, path in routes_of(real_app)}
    assert set(NEEDS) <= routes


def test_the_walk_sees_every_route():
    assert {
        ("GET", "/included/forgotten/some-id"),
        ("GET", "/mounted/deep"),
        ("GET", "/mounted/anything"),
        ("GET", "/plain"),
        ("GET", "/healthz"),
        ("POST", "/predictions/some-id"),
        ("GET", "/docs"),
    } <= set(routes_of(small_app()))


def test_a_websocket_is_closed(guarded):
    sent = []

    async def send(message):
        sent.append(message["type"])

    asyncio.run(guarded({"type": "websocket", "path": "/", "headers": []}, None, send))
    assert sent == ["websocket.close"]


def test_where_nothing_is_set_only_body_limits_stand_before_the_application():
    door = add_access_control(caller, Settings())
    assert isinstance(door, BodyLimitMiddleware)
    assert ask(door, "POST", "/predictions").body == b"nobody"


@pytest.mark.parametrize(
    ("strict", "kind"), [(True, "text/plain; charset=utf-8"), (False, "application/json")]
)
def test_only_strict_cog_refuses_a_large_body_in_plain_text(strict, kind):
    door = add_access_control(caller, Settings(strict_cog=strict, max_body_bytes=1))
    assert ask(door, "POST", headers={"Content-Length": "2"}).headers["content-type"] == kind


def test_start_up_and_shutdown_reach_the_application(key_file):
    seen = []

    async def app(scope, receive, send):
        seen.append(scope["type"])

    settings = Settings(api_keys_file=key_file, rate_limit="1/minute", cors_origins="*")
    asyncio.run(add_access_control(app, settings)({"type": "lifespan"}, None, None))
    assert seen == ["lifespan"]


def test_a_caller_without_a_key_uses_up_nothing_and_sends_no_body(key_file, bearer):
    settings = Settings(api_keys_file=key_file, rate_limit="1/minute", max_body_bytes=1)
    door = add_access_control(caller, settings)
    large = {"Content-Length": "2"}
    assert ask(door, "POST", "/predictions", large).status == 401
    assert ask(door, "POST", "/predictions", large | bearer["predict"]).status == 413
    assert ask(door, "POST", "/predictions", bearer["predict"]).status == 429
    assert ask(door, "POST", "/predictions", bearer["admin"]).status == 200


def test_a_rate_is_each_keys_own_wherever_it_calls_from(key_file, bearer):
    door = add_access_control(caller, Settings(api_keys_file=key_file, rate_limit="1/minute"))
    codes = [
        ask(door, "POST", "/predictions", bearer["predict"], client=(f"192.0.2.{n}", 1)).status
        for n in range(2)
    ]
    assert codes == [200, 429]


PREFLIGHT = {"Origin": "https://page.example", "Access-Control-Request-Method": "PUT"}


def test_other_origins_are_not_allowed_unless_set(key_file):
    headers = ask(
        add_access_control(caller, Settings()), headers={"Origin": "https://page.example"}
    ).headers
    assert not [name for name in headers if name.startswith("access-control")]


def test_a_set_origin_may_ask_without_a_key_and_read_refusals(key_file):
    settings = Settings(api_keys_file=key_file, cors_origins="https://page.example")
    door = add_access_control(caller, settings)
    wanted = PREFLIGHT | {"Access-Control-Request-Headers": "authorization, prefer"}
    preflight = ask(door, "OPTIONS", "/predictions/x", wanted)
    assert preflight.status == 200
    assert preflight.headers["access-control-allow-origin"] == "https://page.example"
    refused = ask(door, "POST", "/predictions", {"Origin": "https://page.example"})
    assert refused.status == 401
    assert refused.headers["access-control-allow-origin"] == "https://page.example"
    other = ask(door, "OPTIONS", "/predictions/x", PREFLIGHT | {"Origin": "https://evil.example"})
    assert "access-control-allow-origin" not in other.headers


@pytest.mark.parametrize("origin", ["page.example", "https://page.example/", "ftp://x", "https://"])
def test_what_is_no_origin_is_refused_at_start(origin):
    with pytest.raises(ConfigError, match="CORS_ORIGINS has") as caught:
        add_access_control(caller, Settings(cors_origins=origin))
    assert repr(origin) in str(caught.value)


def test_a_missing_key_file_is_refused_at_start(tmp_path):
    with pytest.raises(ConfigError, match="API_KEYS_FILE"):
        add_access_control(caller, Settings(api_keys_file=tmp_path / "none"))

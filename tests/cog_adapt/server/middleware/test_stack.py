"""The middlewares together: who is refused first, and what still reaches the application."""

import asyncio
from typing import Any

import pytest
from starlette.responses import PlainTextResponse

from cog_adapt.server.app import create_app
from cog_adapt.server.middleware.access import OPEN, READINESS, need_of
from cog_adapt.server.middleware.body_limit import BodyLimitMiddleware
from cog_adapt.server.middleware.keys import make_key
from cog_adapt.server.middleware.platform_routes import is_signed
from cog_adapt.server.middleware.stack import add_access_control, add_middleware
from cog_adapt.server.settings import Settings
from cog_adapt.server.telemetry.metrics import Metrics
from tests.cog_adapt.server.asgi_client import ask
from tests.cog_adapt.server.middleware.applications import caller, small_app
from tests.cog_adapt.server.routes_walk import routes_of


def test_liveness_needs_no_key(key_file):
    app = add_access_control(PlainTextResponse("alive"), Settings(api_keys_file=key_file))
    assert ask(app, "GET", "/healthz").status == 200
    assert ask(app, "GET", "/healthz/").status == 401
    assert ask(app, "GET", "/health-check").status == 401


PAGE = ("/playground", "/playground/", "/playground/assets/some-id")  # it holds no data


def assert_closed(app, door, bearer, unless=()):
    """No route but liveness opens without a key, and one that the table lacks only to admin."""
    for method, path in routes_of(app):
        if path in OPEN or path in unless or (is_signed(path) and method != "POST"):
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


def test_no_route_of_the_server_is_open_but_probes_and_the_page(real_app, bearer, key_file):
    door = add_middleware(real_app, Settings(api_keys_file=key_file), Metrics())
    assert_closed(real_app, door, bearer, (READINESS, *PAGE))


def test_no_route_of_a_strict_server_is_open_but_liveness(bearer, key_file):
    settings = Settings(api_keys_file=key_file, strict_cog=True)
    app = create_app(settings)
    assert_closed(app, add_middleware(app, settings, Metrics()), bearer)
    for path in ("/", *PAGE):
        browser = {"Accept": "text/html,*/*;q=0.8"}
        assert ask(add_access_control(app, settings), path=path, headers=browser).status == 401


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


def test_for_strict_cog_where_nothing_is_set_only_body_limits_stand_before_the_application():
    door = add_access_control(caller, Settings(strict_cog=True))
    assert isinstance(door, BodyLimitMiddleware)
    assert ask(door, "POST", "/predictions").body == b"nobody"


def test_start_up_and_shutdown_reach_the_application(key_file):
    seen = []

    async def app(scope, receive, send):
        seen.append(scope["type"])

    settings = Settings(api_keys_file=key_file, rate_limit="1/minute", cors_origins=("*",))
    guarded: Any = add_access_control(app, settings)
    asyncio.run(guarded({"type": "lifespan"}, None, None))
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


def test_a_rate_is_shared_by_the_keys_of_one_owner(tmp_path):
    made = [make_key(f"key{n}", ["predict"], owner) for n, owner in enumerate(("a", "a", "b"))]
    path = tmp_path / "keys"
    path.write_text("\n".join(line for _, line in made))
    door = add_access_control(caller, Settings(api_keys_file=path, rate_limit="1/minute"))
    codes = [ask(door, "POST", "/predictions", {"X-Api-Key": key}).status for key, _ in made]
    assert codes == [200, 429, 200]


EVIL = {"Origin": "https://evil.example"}


def test_a_page_of_another_site_changes_nothing_where_no_keys_are_set():
    door = add_access_control(caller, Settings())
    for path in ("/predictions", "/shutdown"):
        assert ask(door, "POST", path, EVIL).status == 403


@pytest.mark.parametrize("keys_are_set", [False, True])
def test_keys_or_strict_cog_need_no_look_at_the_origin(key_file, bearer, keys_are_set):
    settings = Settings(
        api_keys_file=key_file if keys_are_set else None, strict_cog=not keys_are_set
    )
    headers = EVIL | (bearer["predict"] if keys_are_set else {})
    assert ask(add_access_control(caller, settings), "POST", "/predictions", headers).status == 200


def test_a_set_origin_may_change_things_and_others_may_not():
    door = add_access_control(caller, Settings(cors_origins=("https://page.example",)))
    page = {"Origin": "https://page.example", "Sec-Fetch-Site": "cross-site"}
    assert ask(door, "POST", "/predictions", page).status == 200
    assert ask(door, "POST", "/predictions", EVIL).status == 403


PREFLIGHT = {"Origin": "https://page.example", "Access-Control-Request-Method": "PUT"}


def test_a_set_origin_may_ask_without_a_key_and_read_refusals(key_file):
    settings = Settings(api_keys_file=key_file, cors_origins=("https://page.example",))
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


@pytest.mark.parametrize("sent", [{}, {"Authorization": "Bearer wrong"}, {"Content-Length": "9"}])
def test_a_refusal_carries_nothing_of_an_earlier_one(key_file, bearer, sent):
    page = "https://page.example"
    settings = Settings(api_keys_file=key_file, cors_origins=(page,), max_body_bytes=1)
    door = add_access_control(caller, settings)
    headers = (bearer["predict"] if "Content-Length" in sent else {}) | sent
    first = ask(door, "POST", "/predictions", headers)
    assert first.status == (413 if "Content-Length" in sent else 401)
    ask(door, "POST", "/predictions", headers | {"Origin": page})
    assert ask(door, "POST", "/predictions", headers).headers == first.headers


def test_what_a_middleware_refuses_is_counted():
    metrics = Metrics()
    app = add_middleware(caller, Settings(max_body_bytes=1), metrics)
    assert ask(app, "POST", "/predictions", {"Content-Length": "2"}).status == 413
    labels = {"method": "POST", "route": "other", "status": "413"}
    assert metrics.registry.get_sample_value("cog_http_requests_total", labels) == 1


def test_a_body_may_pause_as_long_as_is_set():
    app = add_access_control(caller_of_body, Settings(body_seconds=0.05))
    headers = {"Transfer-Encoding": "chunked"}
    answer = ask(app, "POST", headers=headers, parts=[b"x", 2.0, b"x"])
    assert (answer.status, "0.05 s" in answer.error) == (408, True)


async def caller_of_body(scope, receive, send):
    while (await receive()).get("more_body"):
        pass
    await PlainTextResponse("read")(scope, receive, send)


def test_an_uploaded_file_has_the_limit_of_files_and_all_else_that_of_bodies():
    settings = Settings(max_body_bytes=10, max_file_bytes=20)
    for method, path, size, status in (
        ("POST", "/adapters", 20, 200),
        ("POST", "/adapters", 21, 413),
        ("PATCH", "/adapters/x", 11, 413),
        ("POST", "/predictions", 11, 413),
    ):
        app = add_access_control(reader, settings)
        answer = ask(app, method, path, parts=(b"x" * (size - 1), b"x"), headers=CHUNKED)
        assert answer.status == status, (path, size)
        if path == "/adapters" and status == 413:
            assert "larger than 20 bytes. MAX_FILE_BYTES is the limit" in answer.error


def test_strict_cog_has_one_limit():
    app = add_access_control(reader, Settings(max_body_bytes=10, strict_cog=True))
    assert ask(app, "POST", "/adapters", parts=(b"x" * 11,), headers=CHUNKED).status == 413


CHUNKED = {"Transfer-Encoding": "chunked"}


async def reader(scope, receive, send):
    while (await receive()).get("more_body"):
        pass
    await PlainTextResponse("read")(scope, receive, send)

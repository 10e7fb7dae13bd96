"""Who may come in with which key."""

import asyncio
from typing import Any

import pytest

from cog_adapt.server.middleware.access import NEEDS, is_open
from cog_adapt.server.middleware.auth import AuthMiddleware
from cog_adapt.server.middleware.keys import KeyRing
from gradient_check.tests.present import NOT_USED
from tests.cog_adapt.server.asgi_client import ask
from tests.cog_adapt.server.middleware.applications import caller


@pytest.fixture
def guarded(key_file):
    return AuthMiddleware(caller, KeyRing(key_file))


def test_without_a_key_every_route_but_liveness_is_401(guarded):
    answer = ask(guarded, "POST", "/predictions")
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.headers["content-type"] == "application/json"
    assert "Authorization: Bearer KEY" in answer.error


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


@pytest.mark.parametrize(
    ("headers", "status", "body"),
    [
        ({}, 200, b"nobody"),
        ({"X-API-Key": "KEY"}, 200, b"predict-user"),
        ({"X-API-Key": "x"}, 401, None),
    ],
)
def test_a_probe_needs_no_key_and_a_key_is_still_looked_at(key_file, made, headers, status, body):
    guarded = AuthMiddleware(caller, KeyRing(key_file), is_open)
    headers = {name: value.replace("KEY", made["predict"][0]) for name, value in headers.items()}
    answer = ask(guarded, "GET", "/readyz", headers)
    assert answer.status == status
    assert body is None or answer.body == body


def test_in_strict_mode_a_probe_needs_a_key(guarded):
    assert ask(guarded, "GET", "/readyz").status == 401


def test_an_unknown_key_is_told_from_none(guarded):
    answer = ask(guarded, "GET", "/", {"X-API-Key": "ca_x"})
    assert answer.headers["www-authenticate"] == 'Bearer error="invalid_token"'
    assert answer.error == (
        "The API key is unknown or has expired. Ask the operator for a new one."
    )


def test_a_key_of_another_scope_is_403_and_told_which_it_lacks(guarded, bearer):
    answer = ask(guarded, "POST", "/trainings", bearer["predict"])
    assert answer.status == 403
    assert "'predict-user' lacks the scope 'train'" in answer.error
    assert answer.error.endswith(
        "that POST /trainings needs. Ask the operator for one that has it."
    )


@pytest.mark.parametrize("scope", ["predict", "train", "admin"])
def test_each_route_of_the_table_opens_to_its_scope_and_to_admin(guarded, bearer, scope):
    for route, need in NEEDS.items():
        method, path = route.replace("{id}", "x").split()
        status = ask(guarded, method, path, bearer[scope]).status
        assert status == (200 if need == "any" or scope in (need, "admin") else 403), route


def test_a_websocket_is_closed(guarded):
    sent = []

    async def send(message):
        sent.append(message["type"])

    asyncio.run(guarded({"type": "websocket", "path": "/", "headers": []}, None, send))
    assert sent == ["websocket.close"]


def test_the_application_gets_the_key_beside_whatever_state_there_was(key_file, made):
    seen = []

    async def app(scope, _receive, _send):
        seen.append(scope["state"])

    scope: dict[str, Any] = {"type": "http", "method": "POST", "path": "/trainings"}
    scope["state"] = {"more": 1}
    scope["headers"] = [(b"x-api-key", made["train"][0].encode())]
    asyncio.run(AuthMiddleware(app, KeyRing(key_file))(scope, NOT_USED, NOT_USED))
    assert (seen[0]["key"].name, seen[0]["caller"], seen[0]["more"]) == (
        "train-user",
        "train-user",
        1,
    )

"""What the routes of adapters are asked with."""

import json

import pytest
from fastapi import FastAPI

from cog_adapt.server.api.adapter_parameters import Format, ReferenceDep, Shared
from cog_adapt.server.api.dependencies import AskerDep
from cog_adapt.server.api.responses import exception_handlers
from cog_adapt.server.middleware.keys import Key
from tests.cog_adapt.server.asgi_client import ask


@pytest.fixture
def app():
    app = FastAPI(exception_handlers=exception_handlers(strict=False))

    @app.get("/{reference}")
    async def show(
        reference: ReferenceDep, shared: Shared = None, format: Format = "safetensors"
    ) -> list[str | None]:
        return [reference, shared, format]

    return app


@pytest.mark.parametrize(
    ("path", "reference"), [("/a%2Fb", "a/b"), ("/support@v2", "support@v2"), ("/%C3%A9", "\u00e9")]
)
def test_a_reference_is_decoded(app, path, reference):
    assert json.loads(ask(app, path=path).body) == [reference, None, "safetensors"]


def test_one_that_is_no_utf_8_is_refused(app):
    answer = ask(app, path="/%ff")
    assert (answer.status, answer.error) == (400, "Invalid URL: Invalid UTF-8 in `reference`")


@pytest.mark.parametrize(
    ("key", "asker"),
    [
        (None, ["", False]),
        (Key("ada", frozenset({"predict"}), "0"), ["ada", False]),
        (Key("ci", frozenset({"predict"}), "0", owner="ada"), ["ada", False]),
        (Key("root", frozenset({"admin"}), "0"), ["root", True]),
    ],
)
def test_the_key_names_who_asks(key, asker):
    app = FastAPI()

    @app.get("/")
    async def show(asker: AskerDep) -> list[str | bool]:
        return [asker.owner, asker.sees_all]

    async def with_key(scope, receive, send):
        await app(scope | ({"state": {"key": key}} if key else {}), receive, send)

    assert json.loads(ask(with_key).body) == asker

"""Ids in paths as clients wrote them."""

import asyncio
from typing import Any

import pytest

from cog_adapt.server.middleware.raw_path import RawPathMiddleware


def scope_after(scope):
    """The scope that the application behind the middleware gets, and the one that was given."""
    seen = []

    async def app(scope, receive, send):
        seen.extend([scope, receive, send])

    middleware: Any = RawPathMiddleware(app)
    asyncio.run(middleware(scope, "receive", "send"))
    assert seen[1:] == ["receive", "send"]
    return seen[0]


def test_an_encoded_slash_stays_encoded():
    before = {"type": "http", "path": "/predictions/a/b", "raw_path": b"/predictions/a%2Fb"}
    after = scope_after(before)
    assert after == {**before, "path": "/predictions/a%2Fb"}
    assert before["path"] == "/predictions/a/b"  # whoever stands before it keeps what it knew


def test_a_path_that_is_no_ascii_is_no_fault():
    after = scope_after({"type": "http", "path": "x", "raw_path": b"/a%20\xff"})
    assert after["path"] == "/a%20\ufffd"


@pytest.mark.parametrize(
    "scope",
    [
        {"type": "http", "path": "/plain", "raw_path": b"/plain"},
        {"type": "http", "path": "/100%", "raw_path": None},
        {"type": "lifespan"},
    ],
)
def test_anything_else_passes_untouched(scope):
    assert scope_after(scope) is scope

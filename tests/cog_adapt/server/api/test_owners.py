"""Who asks, by the key of the request."""

import pytest
from starlette.requests import Request

from cog_adapt.server.api.owners import asker_of
from cog_adapt.server.middleware.keys import Key
from cog_adapt.server.records.adapter_pages import Asker


@pytest.mark.parametrize(
    ("state", "asker"),
    [
        ({}, Asker("")),
        ({"state": {}}, Asker("")),
        ({"state": {"key": Key("ada", frozenset({"predict"}), "0")}}, Asker("ada")),
        ({"state": {"key": Key("ci", frozenset({"predict"}), "0", owner="ada")}}, Asker("ada")),
        ({"state": {"key": Key("root", frozenset({"admin"}), "0")}}, Asker("root", sees_all=True)),
    ],
)
def test_the_key_names_who_asks(state, asker):
    assert asker_of(Request({"type": "http"} | state)) == asker

"""Which pages of browsers may call this server."""

import pytest

from cog_adapt.server.errors import ConfigError
from cog_adapt.server.middleware.cors import allow_origins
from cog_adapt.server.middleware.stack import add_access_control
from cog_adapt.server.settings import Settings
from tests.cog_adapt.server.asgi_client import ask
from tests.cog_adapt.server.middleware.applications import caller


@pytest.mark.parametrize(
    "origin",
    ["page.example", "https://page.example/", "ftp://x", "https://", "https://page.example?a=b"],
)
def test_what_is_no_origin_is_refused_at_start(origin):
    with pytest.raises(ConfigError, match="CORS_ORIGINS has") as caught:
        add_access_control(caller, Settings(cors_origins=("*", origin)))
    assert repr(origin) in str(caught.value)


METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
PAGE = "https://page.example"


def headers_of(answer):
    return {name: value for name, value in answer.headers.items() if name.startswith("access-")}


def test_a_preflight_is_answered_for_the_methods_of_the_api_and_any_header():
    app = allow_origins(caller, (PAGE,))
    asked = {"Origin": PAGE, "Access-Control-Request-Headers": "authorization, prefer"}
    for method, status in (*((each, 200) for each in METHODS), ("TRACE", 400)):
        preflight = ask(app, "OPTIONS", headers=asked | {"Access-Control-Request-Method": method})
        assert preflight.status == status, method
        assert preflight.headers["access-control-allow-headers"] == "authorization, prefer"


def test_a_page_may_read_what_clients_need_of_an_answer():
    answer = ask(allow_origins(caller, (PAGE,)), headers={"Origin": PAGE})
    assert headers_of(answer) == {
        "access-control-allow-origin": PAGE,
        "access-control-expose-headers": "Retry-After, Idempotent-Replayed",
    }
    assert answer.body == b"nobody"


@pytest.mark.parametrize("origins", [("*",), ("http://a", PAGE), (f"{PAGE}:8443",)])
def test_origins_and_a_star_are_taken(origins):
    app = allow_origins(caller, origins)
    allowed = headers_of(ask(app, headers={"Origin": origins[-1]}))
    assert allowed["access-control-allow-origin"] == origins[-1]

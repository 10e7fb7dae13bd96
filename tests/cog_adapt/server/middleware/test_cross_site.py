"""What a page of another site may not do."""

import pytest
from structlog.testing import capture_logs

from cog_adapt.server.middleware.cross_site import CrossSiteMiddleware
from tests.cog_adapt.server.asgi_client import ask
from tests.cog_adapt.server.middleware.applications import caller

PAGE, EVIL = "https://page.example", "https://evil.example"


def status(method="POST", allowed=(), **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return ask(CrossSiteMiddleware(caller, allowed), method, "/shutdown", named).status


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize(
    "headers",
    [
        {"origin": EVIL, "host": "server:5000"},
        {"origin": "null", "host": "server:5000"},
        {"origin": "http://server:5001", "host": "server:5000"},
        {"sec_fetch_site": "cross-site", "host": "server:5000"},
        {"sec_fetch_site": "same-site"},
        {"origin": ""},
    ],
)
def test_a_foreign_page_changes_nothing(method, headers):
    assert status(method, (PAGE,), **headers) == 403


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"host": "server:5000"},
        {"origin": "http://server:5000", "host": "server:5000"},
        {"origin": "https://Server:5000", "host": "server:5000", "sec_fetch_site": "same-origin"},
        {"origin": PAGE, "host": "server:5000", "sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "none"},
    ],
)
def test_its_own_pages_set_origins_and_other_clients_may(headers):
    assert status("POST", (PAGE,), **headers) == 200


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_looking_is_free(method):
    assert status(method, origin=EVIL, sec_fetch_site="cross-site") == 200


def test_a_star_lets_every_page_in():
    assert status("POST", ("*",), origin=EVIL) == 200


def test_the_refusal_says_what_to_set_and_is_logged():
    with capture_logs() as lines:
        answer = ask(CrossSiteMiddleware(caller, ()), "POST", "/shutdown", {"Origin": EVIL})
    assert answer.error.startswith(f"A page of {EVIL!r} may not do this. Name its origin in CORS_")
    long = ask(CrossSiteMiddleware(caller, ()), "POST", "/shutdown", {"Origin": EVIL * 500})
    assert len(long.error) < 250
    unnamed = {"Sec-Fetch-Site": "cross-site"}
    by_site = ask(CrossSiteMiddleware(caller, ()), "POST", "/shutdown", unnamed)
    assert by_site.error.startswith("A page of another site may not")
    assert lines[0]["why"] == "a page of another site"

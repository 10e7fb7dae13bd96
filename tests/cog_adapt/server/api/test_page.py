"""The playground: who gets it, what it may load, and that nothing else is served."""

import gzip
from types import SimpleNamespace

import pytest
from fastapi import FastAPI

from cog_adapt.server.api.page import PageRoutes
from cog_adapt.server.api.responses import exception_handlers
from tests.cog_adapt.server.asgi_client import ask

HTML = "<!doctype html><script type=module src=playground/assets/a-1.js></script>"
SCRIPT = "const first = 1;\n" * 200
BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.fixture
def folder(tmp_path):
    built = tmp_path / "page"
    (built / "assets").mkdir(parents=True)
    (built / "index.html").write_text(HTML)
    (built / "assets" / "a-1.js").write_text(SCRIPT)
    (built / "assets" / "style-2.css").write_text("p{}")
    (built / "sources.sha256").write_text("0")
    (tmp_path / "secret").write_text("not for everybody")
    return built


def site_of(folder, upload_url=None):
    app = FastAPI(exception_handlers=exception_handlers(strict=False), openapi_url=None)
    app.router.routes.extend(PageRoutes(folder).routes())
    app.get("/")(lambda: {"cog": True})
    app.state.parts = SimpleNamespace(upload_url=upload_url)
    return app


@pytest.fixture
def site(folder):
    return site_of(folder)


@pytest.mark.parametrize("path", ["/", "/playground"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_browser_gets_the_page(site, path, method):
    answer = ask(site, method, path, BROWSER)
    assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert answer.body.decode() == HTML
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["vary"] == "Accept, Accept-Encoding"


def test_a_client_of_the_api_gets_cogs_json_at_the_root_and_the_page_by_its_name(site):
    assert ask(site, path="/").body == b'{"cog":true}'
    assert ask(site, path="/playground").body.decode() == HTML


def test_a_slash_at_the_end_leads_to_where_relative_addresses_are_right(site):
    answer = ask(site, path="/playground/")
    assert (answer.status, answer.headers["location"]) == (307, "../playground")


def test_an_asset_has_its_type_and_is_kept_for_ever(site):
    answer = ask(site, path="/playground/assets/a-1.js")
    assert (answer.status, answer.body.decode()) == (200, SCRIPT)
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"


@pytest.mark.parametrize("path", ["/playground", "/playground/assets/a-1.js", "/playground/"])
def test_every_answer_is_closed_to_frames_to_guesses_and_to_other_sites(site, path):
    headers = ask(site, path=path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "set-cookie" not in headers
    assert "access-control-allow-origin" not in headers


def directives(policy):
    return dict(part.split(" ", 1) for part in policy.split("; "))


def test_the_page_runs_its_own_scripts_alone(site):
    policy = directives(ask(site, path="/playground").headers["content-security-policy"])
    assert policy == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self' data: blob:",
        "media-src": "'self' data: blob:",
        "font-src": "'self'",
        "connect-src": "'self' data: blob:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "lit-html",
    }
    asset = directives(
        ask(site, path="/playground/assets/a-1.js").headers["content-security-policy"]
    )
    assert asset == {"default-src": "'none'", "frame-ancestors": "'none'"}


@pytest.mark.parametrize(
    ("upload_url", "more"),
    [
        ("https://files.example:8443/out/", " https://files.example:8443"),
        ("http://user:word@[::1]:9000/", " http://[::1]:9000"),
        ("file:///tmp", ""),
    ],
)
def test_the_page_shows_output_files_from_where_the_server_puts_them(folder, upload_url, more):
    site = site_of(folder, upload_url)
    found = directives(ask(site, path="/playground").headers["content-security-policy"])
    assert found["img-src"] == found["media-src"] == f"'self' data: blob:{more}"


@pytest.mark.parametrize(("accepted", "zipped"), [("gzip", True), ("gzip;q=0", False)])
def test_it_is_zipped_for_those_who_take_that(site, accepted, zipped):
    answer = ask(site, path="/playground/assets/a-1.js", headers={"Accept-Encoding": accepted})
    assert (answer.headers.get("content-encoding") == "gzip") is zipped
    assert (gzip.decompress(answer.body) if zipped else answer.body).decode() == SCRIPT
    assert int(answer.headers["content-length"]) == len(answer.body)


def test_what_a_client_has_is_not_sent_again(site):
    tag = ask(site, path="/playground").headers["etag"]
    for known in (tag, tag.removeprefix("W/"), f'"x", {tag}', "*"):
        answer = ask(site, path="/playground", headers={"If-None-Match": known})
        assert (answer.status, answer.body, answer.headers["etag"]) == (304, b"", tag)
    assert ask(site, path="/playground", headers={"If-None-Match": '"x"'}).status == 200


def test_a_range_is_not_cut_out(site):
    answer = ask(site, path="/playground/assets/a-1.js", headers={"Range": "bytes=0-1"})
    assert (answer.status, answer.body.decode()) == (200, SCRIPT)


@pytest.mark.parametrize(
    "path",
    [
        "/playground/assets/..",
        "/playground/assets/../index.html",
        "/playground/assets/..%2f..%2fsecret",
        "/playground/assets/a-1.js%00",
        "/playground/index.html",
        "/playground/assets/sources.sha256",
    ],
)
def test_nothing_else_is_served(site, path):
    assert ask(site, path=path, headers=BROWSER).status == 404


@pytest.mark.parametrize("path", ["/", "/playground"])
def test_a_page_that_is_not_built_names_the_remedy(tmp_path, path):
    answer = ask(site_of(tmp_path), path=path, headers=BROWSER)
    assert (answer.status, answer.error) == (
        404,
        "the playground is not built: run `make page`, which needs Node.js.",
    )

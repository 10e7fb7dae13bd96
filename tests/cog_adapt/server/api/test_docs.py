"""The page at /docs is whole without the internet."""

import re
from importlib.resources import files
from urllib.parse import urljoin, urlsplit

import pytest
from fastapi import FastAPI

from cog_adapt.server.api import docs
from tests.cog_adapt.server.asgi_client import ask

BASE = "http://server.test/prefix/docs"


@pytest.fixture(scope="module")
def app():
    app = FastAPI(openapi_url=None, docs_url=None)
    app.router.routes.extend(docs.router.routes)
    return app


@pytest.fixture(scope="module")
def page(app):
    return ask(app, path="/docs")


def named(page):
    """The URLs that a browser would load."""
    text = page.body.decode()
    return re.findall(r"""(?:src|href)="([^"]*)"|\burl: '([^']*)'""", text)


def test_every_url_in_the_page_stays_on_the_server_behind_any_prefix(page):
    urls = [first or second for first, second in named(page)]
    assert len(urls) == 4
    for url in urls:
        assert urljoin(BASE, url).startswith("http://server.test/prefix/"), url
        # a new version of the files has new addresses
        assert url == "openapi.json" or re.fullmatch(r"v=[\d.]+", urlsplit(url).query)
    assert '"validatorUrl": null' in page.body.decode()  # the document is sent to nobody
    assert "//" not in re.sub(r"<!--.*?-->", "", page.body.decode())


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("swagger-ui-bundle.js", "text/javascript; charset=utf-8"),
        ("swagger-ui.css", "text/css; charset=utf-8"),
        ("favicon-32x32.png", "image/png"),
    ],
)
def test_every_file_of_the_page_is_served_and_kept(app, page, name, kind):
    urls = [first or second for first, second in named(page)]
    assert sum(urlsplit(url).path == f"docs/{name}" for url in urls) == 1
    answer = ask(app, path=f"/docs/{name}")
    assert (answer.status, answer.headers["content-type"]) == (200, kind)
    assert answer.body == (files("fastapi_swagger.resources") / name).read_bytes()
    assert "immutable" in answer.headers["cache-control"]


@pytest.mark.parametrize("name", ["__init__.py", "main.py", "..", "swagger-ui.css.map"])
def test_nothing_else_of_the_package_is_served(app, name):
    assert ask(app, path=f"/docs/{name}").status == 404


def test_no_site_may_frame_the_page_and_it_runs_its_own_scripts_alone(app, page):
    for answer in (page, ask(app, path="/docs/swagger-ui.css")):
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; ")
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["x-content-type-options"] == "nosniff"
    scripts = re.search("script-src ([^;]*)", page.headers["content-security-policy"])
    assert scripts is not None
    assert re.fullmatch(r"'self' 'sha256-[A-Za-z0-9+/]{43}='", scripts[1])

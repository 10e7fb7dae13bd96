"""Section 2: which endpoints there are, and what they answer to the wrong method."""

import pytest

from cog_adapt.server.api.page_files import PAGE
from tests.cog_adapt.contract.differences import expect, follows_cog

ROOT = {
    "cog_version": "0.23.1",
    "docs_url": "/docs",
    "healthcheck_url": "/health-check",
    "openapi_url": "/openapi.json",
    "predictions_cancel_url": "/predictions/{prediction_id}/cancel",
    "predictions_idempotent_url": "/predictions/{prediction_id}",
    "predictions_url": "/predictions",
    "shutdown_url": "/shutdown",
}
TRAININGS = {
    "trainings_cancel_url": "/trainings/{training_id}/cancel",
    "trainings_idempotent_url": "/trainings/{training_id}",
    "trainings_url": "/trainings",
}


def test_root_names_the_endpoints(actions):
    response = actions.get("/")
    assert (response.status_code, response.json()) == (200, ROOT)
    assert response.headers["content-type"] == "application/json"


def test_root_has_sorted_keys(actions):
    keys = list(actions.get("/").json())
    assert keys == sorted(keys)


def test_root_names_trainings_in_train_mode(trainer):
    assert trainer.get("/").json() == ROOT | TRAININGS


def test_root_names_trainings_beside_a_predictor(both):
    assert both.get("/").json() == ROOT | TRAININGS


def test_root_is_json_for_a_browser_too_unless_there_is_a_page(actions):
    response = actions.get("/", headers={"Accept": "text/html,*/*;q=0.8"})
    if follows_cog(actions, because="playground"):
        assert (response.status_code, response.json()) == (200, ROOT)
        assert "vary" not in response.headers
    else:
        assert is_page(response)


@pytest.mark.parametrize(
    "path", ["/playground", "/playground/", "/playground/assets/a.js", "/playground/server.json"]
)
def test_cog_has_no_playground(actions, path):
    response = actions.get(path)
    if follows_cog(actions, because="playground"):
        assert (response.status_code, response.content) == (404, b"")
    elif path == "/playground":
        assert is_page(response)


def is_page(response):
    """Whether it is the page, or says how to build it."""
    if not (PAGE / "index.html").is_file():
        return response.status_code == 404 and "make page" in response.json()["error"]
    is_html = response.headers["content-type"].startswith("text/html")
    return response.status_code == 200 and is_html


@pytest.mark.parametrize("path", ["/", "/health-check", "/openapi.json"])
def test_head_is_get_without_its_body(actions, path):
    status, headers, body = actions.raw("HEAD", path)
    full = actions.raw("GET", path)
    assert (status, body) == (200, b"")
    assert headers["content-type"] == full[1]["content-type"] == "application/json"
    assert headers["content-length"] == str(len(full[2]))


def test_a_query_string_is_ignored(actions):
    assert actions.get("/?a=1").json() == ROOT


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/nothing"),
        ("POST", "/nothing"),
        ("GET", "/health-check/"),
        ("POST", "/predictions/"),
        ("PUT", "/predictions/"),
        ("GET", "/predictions/x/y/z"),
        ("POST", "/predictions/x/stop"),
        ("GET", "/health"),
    ],
)
def test_an_unknown_path_is_404(actions, method, path):
    status, headers, body = actions.raw(method, path)
    assert status == 404
    assert_empty_or_json(actions, headers, body)


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("PUT", "/predictions", "POST"),
        ("DELETE", "/predictions", "POST"),
        ("OPTIONS", "/predictions", "POST"),
        ("POST", "/predictions/x", "PUT"),
        ("PATCH", "/predictions/x", "PUT"),
        ("GET", "/predictions/x/cancel", "POST"),
        ("PUT", "/predictions/x/cancel", "POST"),
        ("PUT", "/trainings", "POST"),
        ("POST", "/trainings/x", "PUT"),
        ("GET", "/trainings/x/cancel", "POST"),
        ("POST", "/", "GET,HEAD"),
        ("DELETE", "/", "GET,HEAD"),
        ("POST", "/health-check", "GET,HEAD"),
        ("PUT", "/openapi.json", "GET,HEAD"),
        ("GET", "/shutdown", "POST"),
        ("PUT", "/shutdown", "POST"),
    ],
)
def test_the_wrong_method_is_405(actions, method, path, allow):
    status, headers, body = actions.raw(method, path)
    assert status == 405
    allowed = {each.strip() for each in headers["allow"].split(",")}
    more = set() if follows_cog(actions, because="get-predictions") else {"GET", "HEAD", "DELETE"}
    assert set(allow.split(",")) <= allowed <= set(allow.split(",")) | more
    assert_empty_or_json(actions, headers, body)


def assert_empty_or_json(server, headers, body):
    if follows_cog(server, because="json-404"):
        assert (body, headers["content-length"]) == (b"", "0")
        assert "content-type" not in headers
    else:
        assert headers["content-type"] == "application/json"
        assert b"error" in body


@pytest.mark.parametrize("path", ["/predictions", "/predictions/unknown"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_records_can_be_looked_at(actions, method, path):
    status = actions.raw(method, path)[0]
    known = 404 if path.endswith("unknown") else 200
    assert status == expect(actions, coglet=405, mirror=known, because="get-predictions")


def test_the_advertised_docs_exist(actions):
    response = actions.get(actions.get("/").json()["docs_url"])
    assert response.status_code == expect(actions, coglet=404, mirror=200, because="docs-page")


def test_no_cors_unless_set(actions):
    for method in ("GET", "OPTIONS"):
        headers = {"Origin": "https://x.example", "Access-Control-Request-Method": "POST"}
        answer = actions.raw(method, "/", headers=headers)[1]
        assert not [name for name in answer if name.startswith("access-control")]


def test_a_page_of_another_site_may_do_nothing(actions):
    headers = {"Origin": "https://x.example", "Content-Type": "application/json"}
    refused = expect(actions, coglet=422, mirror=403, because="cross-site")
    assert actions.raw("PUT", "/predictions/x", b'{"id":"y"}', headers)[0] == refused


@pytest.mark.parametrize("path", ["/predictions/unknown", "/trainings/unknown"])
def test_what_has_ended_can_be_forgotten(actions, path):
    status = actions.raw("DELETE", path)[0]
    assert status == expect(actions, coglet=405, mirror=404, because="forgetting")


@pytest.mark.parametrize("kind", ["predictions", "trainings"])
def test_cancel_of_the_unknown_is_404_with_an_object(actions, kind):
    response = actions.cancel("unknown", kind)
    assert (response.status_code, response.text) == (404, "{}")
    assert response.headers["content-type"] == "application/json"


def test_cancel_ignores_its_body(actions):
    for headers in ({}, {"Content-Type": "application/json"}, {"Content-Type": "text/plain"}):
        answer = actions.raw("POST", "/predictions/unknown/cancel", b"{nonsense", headers)
        assert (answer[0], answer[2]) == (404, b"{}")


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_operators_have_endpoints_of_their_own(actions, path):
    if actions.flavour != "mirror":
        pytest.skip("the mirror's own")
    assert actions.get(path).status_code == 200

"""Two servers of one PostgreSQL, each with folders of its own: files and signed URLs are shared."""

from contextlib import ExitStack
from functools import partial

import httpx2 as httpx
import pytest

from tests.cog_adapt.replicate.site import ADA, BOB, site


@pytest.fixture(scope="module")
def two(cluster, tmp_path_factory):
    url = cluster.empty()
    with ExitStack() as stack:
        folders = (tmp_path_factory.mktemp(name) for name in "ab")
        one = partial(site, is_alone=True, DATABASE_URL=url)
        yield [stack.enter_context(one(folder)) for folder in folders]


@pytest.fixture(scope="module")
def upload(two):
    """A file of ada's, sent to the first server."""
    parts = {"content": ("words.txt", b"hello", "text/plain")}
    made = httpx.post(f"{two[0].url}/v1/files", files=parts, headers=ADA)
    assert made.status_code == 201
    return made.json()


def test_what_one_server_has_got_another_uses(two, upload):
    for server in two:
        asked = {"input": {"file": upload["urls"]["get"], "text": ""}}
        answer = server.post("/predictions", asked, headers=ADA).json()
        assert answer["output"] == [".txt=hello "], answer
    refused = two[1].post("/predictions", asked, headers=BOB).json()
    assert "there is no file" in refused["error"]


def test_a_url_that_one_server_has_signed_opens_at_another(two, upload):
    first, second = (server.url for server in two)
    there = upload["urls"]["download"].replace(first, second)
    assert there.startswith(second)
    assert httpx.get(there).content == b"hello"
    assert httpx.get(there.replace("signature=", "signature=A")).status_code == 403


def test_what_is_removed_at_one_server_is_gone_at_another(two, upload):
    path = f"/v1/files/{upload['id']}"
    assert [each["id"] for each in two[1].get("/v1/files", headers=ADA).json()["results"]] == [
        upload["id"]
    ]
    assert two[1].request("DELETE", path, headers=ADA).status_code == 204
    assert two[0].get(path, headers=ADA).status_code == 404

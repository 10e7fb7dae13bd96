"""A server without keys, behind a proxy, with little room for files; and one in Cog's mode."""

import io
import re

import pytest
from replicate.client import Client
from replicate.exceptions import ReplicateError

from cog_adapt.server.app import create_app
from cog_adapt.server.settings import Settings
from tests.cog_adapt.replicate.site import site
from tests.cog_adapt.server.routes_walk import routes_of

PUBLIC = "https://models.example/base"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with site(
        tmp_path_factory.mktemp("open"),
        API_KEYS_FILE="",
        UPLOAD_BYTES="2000",
        MAX_FILE_BYTES="1500",
        PUBLIC_URL=f"{PUBLIC}/",
    ) as running:
        yield running


@pytest.fixture
def client(server):
    client = Client(api_token="any", base_url=server.url)
    with client._client:
        yield client


def test_runs_files_and_streams_need_no_key(server, client):
    made = client.files.create(io.BytesIO(b"content"), filename="x.txt")
    found = client.run("any/name", input={"file": io.BytesIO(b"content"), "text": "z"})
    assert found[0].endswith("=content ")
    prediction = client.predictions.create(model="any/name", input={"text": "x"})
    assert prediction.urls["get"] == f"{PUBLIC}/v1/predictions/{prediction.id}"
    stream = prediction.urls["stream"].removeprefix(PUBLIC)
    assert "data: x" in server.get(stream).text
    assert client.accounts.current().username == "local"
    client.files.delete(made.id)


def test_files_beyond_the_limits_are_refused(server, client):
    with pytest.raises(ReplicateError) as refused:
        client.files.create(io.BytesIO(b"x" * 5000), filename="x.txt")
    assert refused.value.status == 413
    client.files.create(io.BytesIO(b"x" * 1100), filename="x.txt")
    with pytest.raises(ReplicateError, match="UPLOAD_BYTES") as refused:
        client.files.create(io.BytesIO(b"x" * 1100), filename="x.txt")
    assert refused.value.status == 507


def test_the_secret_is_for_admin_alone_so_nobody_gets_it(client):
    with pytest.raises(ReplicateError, match="API_KEYS_FILE") as refused:
        client.webhooks.default.secret()
    assert refused.value.status == 403


def test_cogs_mode_has_no_such_route():
    routes = [path for _, path in routes_of(create_app(Settings(strict_cog=True)))]
    assert routes
    assert not [path for path in routes if re.match("/v1", path)]

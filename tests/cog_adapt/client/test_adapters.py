"""Adapters by the clients, against a real server."""

import asyncio

import pytest

from cog_adapt import AsyncClient, Client
from cog_adapt.client import FileNotWritten, NotFound, RefusedInput
from tests.cog_adapt.client.conftest import ROWS


@pytest.fixture(scope="module")
def adapter(server):
    """The id of an adapter that a prediction has made."""
    with Client(server.url, server.key) as client:
        return client.predict(text="ab", examples=ROWS).output["adapter"]


def test_an_adapter_is_named_shared_found_and_used(client, adapter):
    named = client.adapters.name(adapter, "support")
    assert (named["id"], named["name"]) == (adapter, "support")
    assert client.adapters.share("support", ["ada"])["shared"] == ["ada"]
    found = client.adapters.get("support", owner="command")
    assert (found["id"], found["shared"]) == (adapter, ["ada"])
    assert [each["id"] for each in client.adapters.list(name="support")] == [adapter]
    assert adapter in [each["id"] for each in client.adapters.list(label="low", owner="command")]
    by_name, by_id = (client.predict(text="ab", adapter=each) for each in ("support", adapter))
    assert by_name.output["predictions"] == by_id.output["predictions"]


def test_one_goes_down_and_away_and_up(client, tmp_path):
    made = client.predict(text="ab", examples=ROWS, steps=5).output["adapter"]
    path = client.adapters.download(made, tmp_path)
    assert path == tmp_path / f"{made}.safetensors"
    assert client.adapters.download(made, tmp_path / "x", format="receipt").stat().st_size > 100
    assert client.adapters.remove(made) == {"removed": True, "children": []}
    for call in (client.adapters.get, lambda each: client.adapters.download(each, tmp_path)):
        with pytest.raises(NotFound, match=f"404: there is no adapter '{made}'"):
            call(made)
    assert client.adapters.upload(path)["id"] == made
    assert sorted(each.name for each in tmp_path.iterdir()) == [path.name, "x"]


def test_what_is_refused_is_an_error_in_its_words(client, tmp_path, adapter):
    (tmp_path / "file").write_bytes(b"bad")
    with pytest.raises(RefusedInput):
        client.adapters.upload(tmp_path / "file")
    with pytest.raises(RefusedInput, match="none cannot be read: No such file or directory"):
        client.adapters.upload(tmp_path / "none")
    with pytest.raises(FileNotWritten, match="cannot be written: No such file or directory"):
        client.adapters.download(adapter, tmp_path / "none" / "x")
    with pytest.raises(RefusedInput) as caught:
        client.adapters.change(adapter, {"pinned": "often"})
    assert caught.value.status == 422


def test_the_asynchronous_client_does_the_same(server, tmp_path, adapter):
    async def work():
        async with AsyncClient(server.url, server.key) as client:
            adapters = client.adapters
            path = await adapters.download(adapter, tmp_path)
            made = await adapters.upload(path)
            return made["id"], [each["id"] async for each in adapters.list()]

    made, found = asyncio.run(work())
    assert made == adapter
    assert adapter in found


def test_all_pages_are_asked_for(httpserver):
    for cursor, found, rest in ((None, ["a", "b"], "x y"), ("x y", ["c"], None)):
        query = {"limit": "1000", "owner": "o", "label": "l"} | (
            {"cursor": cursor} if cursor else {}
        )
        page = {"results": [{"id": each} for each in found], "next": rest}
        httpserver.expect_request("/adapters", query_string=query).respond_with_json(page)
    with Client(httpserver.url_for("")) as client:
        listed = client.adapters.list(owner="o", label="l")
        assert [each["id"] for each in listed] == ["a", "b", "c"]

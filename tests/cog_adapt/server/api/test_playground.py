"""The data that the playground alone asks for."""

import json

import pytest

from cog_adapt.server.api.shapes import ExampleRequest, ServerFigures
from cog_adapt.server.middleware.keys import Key
from cog_adapt.server.protocol import Gauges


def read(answer):
    return json.loads(answer.body)


def gauging(site, **values):
    async def ask(*_):
        return Gauges(values)

    site.lead.pending.ask = ask


def test_examples_are_those_of_the_predictors_folder_as_they_are_now(play, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    async def scene(site):
        answer = await site.ask("GET", "/playground/examples.json")
        assert (answer.status, read(answer)) == (200, [])
        assert answer.headers["cache-control"] == "no-store"
        (tmp_path / "examples").mkdir()
        file = tmp_path / "examples" / "requests.json"
        file.write_text('[{"name": "a", "input": {"text": "t"}}]')
        (found,) = read(await site.ask("GET", "/playground/examples.json"))
        assert found == ExampleRequest(**found).model_dump()
        assert found == {"name": "a", "kind": "predict", "description": "", "input": {"text": "t"}}
        file.write_text("[{}]")
        refused = await site.ask("GET", "/playground/examples.json")
        assert refused.status == 500
        assert refused.error.startswith("examples/requests.json holds no example requests: ")

    play(scene)


def test_figures_are_of_the_shape_that_the_document_gives(play):
    async def scene(site):
        gauging(site, process_memory_bytes=5.0)
        await site.harness.submit("a", durable=False)
        answer = await site.ask("GET", "/playground/server.json")
        body = read(answer)
        assert (answer.status, answer.headers["cache-control"]) == (200, "no-store")
        assert set(body) == set(ServerFigures.model_fields)
        ServerFigures.model_validate(body)
        assert (body["status"], body["model"]) == ("BUSY", {"process_memory_bytes": 5.0})
        assert [each["running"] for each in body["workers"]] == [1, 0]

    play(scene)


def test_without_keys_all_is_open(play):
    async def scene(site):
        gauging(site)
        assert read(await site.ask("GET", "/playground/server.json"))["key"] == {
            "needed": False,
            "name": "",
            "owner": "",
            "scopes": ["predict", "train", "admin"],
        }

    play(scene)


@pytest.mark.parametrize(
    ("scopes", "opened"),
    [(["train"], ["train"]), (["admin"], ["predict", "train", "admin"])],
)
def test_a_key_is_told_what_it_opens(play, scopes, opened):
    async def scene(site):
        gauging(site)
        key = Key("ci", frozenset(scopes), "0" * 64, owner="team")
        found = read(await site.ask("GET", "/playground/server.json", key=key))["key"]
        assert found == {"needed": True, "name": "ci", "owner": "team", "scopes": opened}

    play(scene)

"""Adapters of the shipped predictor, from one's examples to another server's use, over HTTP."""

import hashlib
import re
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import pytest
import safetensors

from cog_adapt.adapter_metadata import AdapterMetadata
from cog_adapt.server.api.adapter_shapes import Adapter
from tests.cog_adapt.contract.serving import serving
from tests.cog_adapt.waiting import wait_for

ROOT = Path(__file__).parents[2]
PROTOCOL = ROOT / "docs" / "predictor-protocol.md"
TICKETS = ROOT / "examples" / "tickets.jsonl"
TEXTS = ["My parcel has not come.", "I cannot log in any more."]
KEYS = {"ada-key": "ada predict", "bob-key": "bob predict", "root-key": "root admin"}
ADA, BOB, ROOT_KEY = ({"Authorization": f"Bearer {key}"} for key in KEYS)


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """Starts the shipped predictor with keys in a folder, and again with what is there."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "predict.py").symlink_to(ROOT / "predict.py")
    lines = [f"{who} {hashlib.sha256(key.encode()).hexdigest()}" for key, who in KEYS.items()]
    (folder / "keys").write_text("\n".join(lines))
    env = {"WEIGHTS_DIR": str(folder / "weights"), "API_KEYS_FILE": str(folder / "keys")}

    def run():
        return serving("mirror", folder, predict="predict.py:Predictor", env=env, until="up")

    return run


def test_the_protocols_page_and_the_openapi_document_describe_every_field_of_the_metadata():
    names = {each.name for each in fields(AdapterMetadata)}
    table = PROTOCOL.read_text().split("Metadata is a JSON object")[1].split("\n\n")[1]
    keys = (row.split("|")[1] for row in table.splitlines()[2:])
    assert {name for key in keys for name in re.findall("`(.+?)`", key)} == names
    assert {*Adapter.model_fields} == names


def wait_until_ready(server):
    wait_for(lambda: server.get("/readyz", headers=ADA).status_code == 200 or None, 120)


def predict(server, headers, **values):
    answer = server.post("/predictions", {"input": {"texts": TEXTS} | values}, headers=headers)
    return answer.json()


@pytest.fixture(scope="module")
def made(start, tmp_path_factory):
    """What one server said of an adapter that it made, and its files; that server has ended."""
    with start() as server:
        wait_until_ready(server)
        made = predict(server, ADA, examples=TICKETS.read_text(), steps=3)["output"]
        path = f"/adapters/{made['adapter']}"
        found = server.get(path, headers=ADA).json()
        named = server.request("PATCH", path, {"name": "support"}, headers=ADA).json()
        by_name = predict(server, ADA, adapter="support@v1")["output"]
        of_others = [
            (
                server.get(f"/adapters/{reference}", headers=BOB).status_code,
                predict(server, BOB, adapter=reference)["status"],
            )
            for reference in (made["adapter"], "support")
        ]
        files = [
            server.get(f"{path}/download?format={form}", headers=ADA)
            for form in ("safetensors", "peft")
        ]
        forgotten = predict(server, ADA, examples=TICKETS.read_text(), method="lora", steps=1)
        answer = server.request("DELETE", f"/predictions/{forgotten['id']}", headers=ADA)
    return SimpleNamespace(
        id=made["adapter"],
        path=path,
        predictions=made["predictions"],
        found=found,
        named=named,
        by_name=by_name,
        of_others=of_others,
        files=files,
        forgotten=(forgotten["output"]["adapter"], answer.json()),
        weights=server.folder / "weights",
    )


def test_what_a_prediction_made_goes_with_it(made):
    adapter, answer = made.forgotten
    assert answer["adapters"] == {adapter: "removed"}


def test_it_is_named_used_by_its_name_and_its_owners_alone(made):
    assert (made.found["owner"], made.found["recipe"]["method"]) == ("ada", "auto")
    assert (made.found["examples"] > 0, "refund" in made.found["labels"]) == (True, True)
    assert (made.named["name"], made.named["version"]) == ("support", 1)
    assert made.by_name["predictions"] == made.predictions
    assert made.of_others == [(404, "failed")] * 2


def test_it_is_downloaded_in_both_formats(made, tmp_path):
    ours, pefts = made.files
    (tmp_path / "a.safetensors").write_bytes(ours.content)
    with safetensors.safe_open(tmp_path / "a.safetensors", "pt") as opened:
        assert len(opened.keys()) == made.found["tensors"]
    assert pefts.headers["content-type"] == "application/zip"


def test_another_server_finds_it_removes_it_and_takes_its_files(start, made):
    for known in made.weights.rglob("*.json"):
        known.unlink()  # as before there was any
    with start() as server:  # the index is filled from the files
        wait_until_ready(server)
        assert server.get("/adapters", headers=BOB).json()["results"] == []
        (listed,) = server.get("/adapters", headers=ADA).json()["results"]
        assert listed["id"] == made.id
        assert server.request("DELETE", made.path, headers=ADA).json()["removed"] is True
        assert server.get("/adapters", headers=ADA).json()["results"] == []
        assert predict(server, ADA, adapter=made.id)["status"] == "failed"
        for who, file in zip((BOB, ADA), made.files, strict=True):
            url = f"{server.url}/adapters"
            taken = server.client.post(url, content=file.content, headers=who)
            assert taken.status_code == 201, taken.text
            again = predict(server, who, adapter=taken.json()["id"])["output"]
            assert again["predictions"] == made.predictions
            if who == BOB:
                assert taken.headers["location"] == made.path
        everything = server.get("/adapters", headers=ROOT_KEY).json()["results"]
    assert [each["owner"] for each in everything] == ["ada", "bob"]

"""Adapters of the shipped predictor, from one's examples to another server's use, over HTTP."""

import hashlib
from pathlib import Path

import pytest
import safetensors

from tests.cog_adapt.contract.serving import serving
from tests.cog_adapt.waiting import wait_for

ROOT = Path(__file__).parents[2]
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


def wait_until_ready(server):
    wait_for(lambda: server.get("/readyz", headers=ADA).status_code == 200 or None, 120)


def predict(server, headers, **values):
    answer = server.post("/predictions", {"input": {"texts": TEXTS} | values}, headers=headers)
    return answer.json()


def test_one_is_made_named_used_moved_and_removed(start, tmp_path):
    with start() as server:
        wait_until_ready(server)
        answer = predict(server, ADA, examples=TICKETS.read_text(), steps=1)
        forgotten = server.request("DELETE", f"/predictions/{answer['id']}", headers=ADA).json()
        assert forgotten["adapters"] == {answer["output"]["adapter"]: "removed"}
        made = predict(server, ADA, examples=TICKETS.read_text(), steps=3)["output"]
        path = f"/adapters/{made['adapter']}"
        found = server.get(path, headers=ADA).json()
        assert (found["owner"], found["recipe"]["method"]) == ("ada", "lora")
        assert (found["examples"] > 0, "refund" in found["labels"]) == (True, True)
        named = server.request("PATCH", path, {"name": "support"}, headers=ADA).json()
        assert (named["name"], named["version"]) == ("support", 1)
        by_name = predict(server, ADA, adapter="support@v1")["output"]
        assert by_name["predictions"] == made["predictions"]
        for reference in (made["adapter"], "support"):
            assert server.get(f"/adapters/{reference}", headers=BOB).status_code == 404
            assert predict(server, BOB, adapter=reference)["status"] == "failed"
        file = server.get(f"{path}/download", headers=ADA)
        (tmp_path / "a.safetensors").write_bytes(file.content)
        with safetensors.safe_open(tmp_path / "a.safetensors", "pt") as opened:
            assert len(opened.keys()) == found["tensors"]
        zipped = server.get(f"{path}/download?format=peft", headers=ADA)
        assert zipped.headers["content-type"] == "application/zip"
        weights = server.folder / "weights"
    for known in weights.rglob("*.json"):
        known.unlink()  # as before there was any
    with start() as server:  # the index is filled from the files
        wait_until_ready(server)
        assert server.get("/adapters", headers=BOB).json()["results"] == []
        (listed,) = server.get("/adapters", headers=ADA).json()["results"]
        assert listed["id"] == made["adapter"]
        assert server.request("DELETE", path, headers=ADA).json()["removed"] is True
        assert server.get("/adapters", headers=ADA).json()["results"] == []
        assert predict(server, ADA, adapter=made["adapter"])["status"] == "failed"
        taken = server.client.post(f"{server.url}/adapters", content=file.content, headers=BOB)
        assert (taken.status_code, taken.json()["owner"]) == (201, "bob")
        assert taken.headers["location"] == path
        again = predict(server, BOB, adapter=made["adapter"])["output"]
        assert again["predictions"] == made["predictions"]
        from_peft = server.client.post(
            f"{server.url}/adapters", content=zipped.content, headers=ADA
        )
        assert from_peft.status_code == 201, from_peft.text
        same = predict(server, ADA, adapter=from_peft.json()["id"])["output"]
        assert same["predictions"] == made["predictions"]
        everything = server.get("/adapters", headers=ROOT_KEY).json()["results"]
        assert [each["owner"] for each in everything] == ["ada", "bob"]

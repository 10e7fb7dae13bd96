"""`train.py` through Cog's real server, and the weights it makes through `predict.py`."""

import base64
import threading
from pathlib import Path

import pytest

from cog_adapt import adapter_from_bytes, cog_server, write_schema

ROOT = Path(__file__).parent.parent
PREDICTOR = "predict.py:Predictor"
TRAINER = "train.py:Trainer"
EXAMPLES = (ROOT / "examples" / "tickets.jsonl").read_text()
TEXTS = ["My parcel has not come.", "I cannot log in any more."]
STEPS = 25  # checkpoints are kept every 20


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cog")
    for name in ("predict.py", "train.py"):
        (folder / name).symlink_to(ROOT / name)
    write_schema(folder, predict=PREDICTOR, train=TRAINER)
    return folder


def trainer(folder, weights_dir, self_test="off"):
    env = {"WEIGHTS_DIR": str(weights_dir), "SELF_TEST": self_test}
    return cog_server(folder, predict=PREDICTOR, train=TRAINER, mode="train", env=env)


def train(server, steps=STEPS):
    values = {"examples": EXAMPLES, "steps": steps, "batch_size": 8}
    body = server.post("/trainings", {"input": values}).json()
    assert body["status"] == "succeeded", body
    return base64.b64decode(body["output"]["weights"].partition(",")[2]), body["output"]["report"]


@pytest.fixture(scope="module")
def trained(folder, tmp_path_factory):
    with trainer(folder, tmp_path_factory.mktemp("weights"), self_test="full") as server:
        return train(server)


def test_a_training_reports_its_held_out_score(trained):
    _, report = trained
    assert report["steps"] == STEPS
    assert report["held_out_examples"] == 6
    assert report["held_out_after"] >= report["held_out_before"]


def test_predict_answers_with_the_weights_by_cog_weights_and_as_an_input(folder, trained, tmp_path):
    content, _ = trained
    path = tmp_path / "made.safetensors"
    path.write_bytes(content)
    env = {"COG_WEIGHTS": str(path), "WEIGHTS_DIR": str(tmp_path), "SELF_TEST": "off"}
    with cog_server(folder, predict=PREDICTOR, env=env) as server:
        started = server.post("/predictions", {"input": {"texts": TEXTS}}).json()["output"]
        url = "data:application/octet-stream;base64," + base64.b64encode(content).decode()
        named = server.post("/predictions", {"input": {"texts": TEXTS, "weights": url}}).json()
    assert started["adapter"] == adapter_from_bytes(content, "made").id
    assert [answer["label"] for answer in started["predictions"]] == ["delivery", "access"]
    assert named["output"] == started


def test_a_training_that_was_killed_goes_on_and_ends_with_the_same_digest(
    folder, trained, tmp_path
):
    content, _ = trained
    killed_after = "step 21/"
    with trainer(folder, tmp_path) as server:
        kill_at(server, killed_after)
    assert list((tmp_path / "checkpoints").iterdir())
    assert not (tmp_path / "adapters").exists()
    with trainer(folder, tmp_path) as server:
        resumed, report = train(server)
        assert "step 1/" not in server.log.read_text()
    assert resumed == content
    assert report["steps"] == STEPS
    assert not list((tmp_path / "checkpoints").iterdir())


def test_the_last_blocks_alone_are_trained_and_no_more_than_there_are(folder, tmp_path):
    values = {"examples": EXAMPLES, "steps": 2, "rank": 2}
    with trainer(folder, tmp_path) as server:
        done, refused = (
            server.post("/trainings", {"input": values | {"blocks": count}}).json()
            for count in (1, 7)
        )
    assert done["output"]["report"]["trained_parameters"] == 6 * 385 + 2 * 2 * 2 * 384
    assert (
        "blocks is 7, but TextClassification names 6 blocks. Ask for at most 6" in refused["error"]
    )


def kill_at(server, line):
    """SIGKILL the server and its worker, once the running training has logged `line`."""
    values = {"examples": EXAMPLES, "steps": STEPS, "batch_size": 8}
    headers = {"Prefer": "respond-async"}
    body = {"id": "killed", "input": values}
    assert server.post("/trainings", body, headers).status_code == 202
    for _ in range(6000):
        answer = server.request("PUT", "/trainings/killed", body).json()
        if line in answer.get("logs", ""):
            server.kill()
            return
        threading.Event().wait(0.01)
    raise AssertionError("the training never got that far")

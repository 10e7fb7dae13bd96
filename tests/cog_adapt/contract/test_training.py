"""Section 8: trainings, in a server that trains and in one that predicts."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.cog_adapt.contract.differences import expect, follows_cog
from tests.cog_adapt.contract.flavours import STRICT_OR_NOT
from tests.cog_adapt.contract.serving import wait_until
from tests.cog_adapt.waiting import wait_for

WEIGHTS = {"weights": "data:application/octet-stream;base64,bg=="}
ASYNC = {"Prefer": "respond-async"}


def train(server, **inputs):
    response = server.post("/trainings", {"input": inputs})
    assert response.status_code == 200, response.text
    return response.json()


def test_a_training(trainer):
    body = train(trainer, name="n", steps=2)
    assert list(body) == ["id", "logs", "metrics", "output", "status"]
    assert body["logs"] == "step 0\nstep 1\n"
    assert body["metrics"].pop("predict_time") > 0
    assert body["metrics"] == {"step": 1}
    assert (body["output"], body["status"]) == (WEIGHTS, "succeeded")


def test_a_training_in_a_server_that_predicts(both):
    body = train(both, name="n")
    if follows_cog(both, because="training-paths"):
        assert body["error"].startswith("Prediction failed: Prediction failed: TypeError:")
    else:
        assert body["output"] == WEIGHTS


def test_predictions_beside_trainings(both):
    assert both.output(text="hi") == "predicted hi"


def test_a_training_that_fails(trainer):
    body = train(trainer, name="n", fail=True)
    assert body["status"] == "failed"
    assert body["error"] == "Prediction failed: Training failed: ValueError: boom"
    logs = body["logs"]
    if follows_cog(trainer, because="failure-logs"):
        assert logs == ""
    else:
        assert logs.startswith("step 0\n")


@pytest.mark.parametrize("which", ["train", "predict"])
def test_inputs_are_checked(trainer, both, which):
    server = {"train": trainer, "predict": both}[which]
    response = server.request("POST", "/trainings", {"input": {"steps": "x"}})
    assert (response.status_code, response.json()["detail"]) == (
        422,
        [
            {
                "loc": ["body", "input", "steps"],
                "msg": '"x" is not of type "integer"',
                "type": "value_error",
            },
            {
                "loc": ["body", "input", "name"],
                "msg": "Field required",
                "type": "value_error.missing",
            },
        ],
    )
    response = server.request("POST", "/trainings", {"input": {"name": "n", "steps": 0}})
    assert response.json()["detail"][0]["msg"] == "0 is less than the minimum of 1"


def test_put_with_two_ids_is_422(trainer, both):
    for server in (trainer, both):
        response = server.request("PUT", "/trainings/x", {"id": "y", "input": {"name": "n"}})
        problem = {
            "loc": ["body", "id"],
            "msg": "training ID must match the ID supplied in the URL",
            "type": "value_error",
        }
        assert (response.status_code, response.json()) == (422, {"detail": [problem]})


def test_put_runs_a_training(trainer):
    name = trainer.new_id()
    body = trainer.put(f"/trainings/{name}", {"input": {"name": "n"}}).json()
    assert (body["id"], body["output"]) == (name, WEIGHTS)


def test_an_asynchronous_training_and_put(trainer):
    trainer.until_idle()
    body = {"id": trainer.new_id(), "input": {"name": "n", "seconds": 20.0}}
    with trainer.beginning():
        response = trainer.post("/trainings", body, headers=ASYNC)
        assert (response.status_code, response.json()) == (
            202,
            {"id": body["id"], "status": "starting"},
        )
    response = trainer.request("PUT", f"/trainings/{body['id']}", {"input": body["input"]})
    assert (response.status_code, response.json()) == (
        202,
        {
            "id": body["id"],
            "input": body["input"],
            "logs": "step 0\n",
            "metrics": {"step": 0},
            "status": "processing",
        },
    )
    assert trainer.cancel(body["id"], "trainings").status_code == 200
    trainer.until_idle()


@pytest.mark.parametrize("kind", ["trainings", "predictions"])
def test_cancel(trainer, kind):
    trainer.until_idle()
    name = trainer.new_id()
    inputs = {"name": "n", "steps": 500, "seconds": 0.1}
    with ThreadPoolExecutor(1) as pool:
        with trainer.beginning():
            answer = pool.submit(trainer.post, "/trainings", {"id": name, "input": inputs})
        assert trainer.cancel(name, kind).status_code == 200
        body = answer.result(10).json()
    assert body["status"] == "canceled"
    assert body["metrics"]["step"] < 100


def test_no_streams(trainer, both):
    for server in (trainer, both):
        stream = {"Accept": "text/event-stream"}
        response = server.request("POST", "/trainings", {"input": {"name": "n"}}, headers=stream)
        assert (response.status_code, response.json()) == (
            406,
            {"error": "Training endpoints do not support streaming responses."},
        )


def test_predictions_in_train_mode(trainer):
    """Cog runs train(); the mirror does so under STRICT_COG alone."""
    response = trainer.request("POST", "/predictions", {"input": {"text": "hi"}})
    if trainer.flavour == "mirror":
        assert response.status_code in (200, 404, 503)
    else:
        assert response.json()["error"].startswith(
            "Prediction failed: Training failed: TypeError: train() got an unexpected keyword"
        )


@STRICT_OR_NOT
def test_a_class_with_run_and_train(launch):
    server = launch(
        "train_both.py:Predictor", train="train.py:Trainer", flags=("--x-mode", "train")
    )
    assert train(server, name="n")["output"] == "set up n 1"


@STRICT_OR_NOT
def test_a_class_with_train_alone(launch):
    server = launch(
        "train_both.py:Predictor",
        train="train_alone.py:Trainer",
        flags=("--x-mode", "train"),
        until=None,
    )
    final = {"READY", "SETUP_FAILED"}
    wait_until(server, "up")
    status = wait_for(lambda: (s := server.health()["status"]) in final and s or None)
    assert status == expect(
        server, coglet="SETUP_FAILED", mirror="READY", because="train-only-class"
    )

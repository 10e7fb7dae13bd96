"""The shipped doors under Cog's real server, where they lean on the package's own promises."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from cog_adapt import cog_server, write_schema
from tests.cog_adapt.waiting import wait_until

ROOT = Path(__file__).parents[2]
PREDICTOR = "predict.py:Predictor"
TICKETS = ROOT / "examples" / "tickets.jsonl"
LABELS = ["refund", "delivery", "access", "defect", "idea", "billing"]
TEXTS = ["My parcel has not come.", "I cannot log in any more.", "Please add a dark theme."]
BASE = {"texts": TEXTS, "labels": LABELS}


def two_classes(*rows):
    return json.dumps([{"text": text, "label": label} for text, label in rows])


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cog")
    (folder / "predict.py").symlink_to(ROOT / "predict.py")
    write_schema(folder, predict=PREDICTOR)  # Cog's server streams by it
    env = {"WEIGHTS_DIR": str(folder), "COG_MAX_CONCURRENCY": "4"}
    with cog_server(folder, predict=PREDICTOR, env=env) as running:
        yield running


def ask(server, **values):
    body = server.post("/predictions", {"input": values}).json()
    assert body["status"] == "succeeded", body
    return body["output"]


def test_concurrent_requests_with_different_examples_each_get_their_own_answer(server):
    rows = TICKETS.read_text().splitlines()
    requests = [
        {"texts": TEXTS, "steps": 4, "seed": seed, "method": "lora"}
        | {"examples": "\n".join(rows[seed::3]), "deterministic": True}
        for seed in range(3)
    ] + [BASE | {"deterministic": True}]
    alone = [ask(server, **values) for values in requests]
    with ThreadPoolExecutor(len(requests)) as pool:
        together = list(pool.map(lambda values: ask(server, **values), requests))
    for one, other in zip(alone, together, strict=True):
        assert other["predictions"] == one["predictions"]
        assert other["adapter"] == one["adapter"]
    assert len({output["adapter"] for output in together}) == 4


def test_an_early_answer_comes_as_log_and_metric_while_the_rest_runs(server):
    values = {"texts": TEXTS, "examples": TICKETS.read_text(), "steps": 6}
    seen = [*server.stream("/predictions", {"input": values})]
    kinds = [what_is(event, data) for event, data in seen]
    assert kinds.count("log early") == kinds.count("metric early") == 1
    assert kinds.index("log early") < kinds.index("log step")
    assert kinds.index("metric early") < kinds.index("log step") < kinds.index("output")
    early = next(data["value"] for event, data in seen if data.get("name") == "early")
    assert early["expected"].startswith("expected accuracy about ")
    assert [answer["label"] for answer in early["predictions"]][:2] == ["delivery", "access"]
    (output,) = (data["chunk"] for event, data in seen if event == "output")
    assert early["predictions"] not in (output["predictions"], output["before"])
    assert seen[-1][0] == "completed"
    assert seen[-1][1]["metrics"]["early"] == early


def what_is(event, data):
    """Name an event of a stream, with the first word of a log and the name of a metric."""
    more = {"log": data.get("data", "").split(" ")[0], "metric": data.get("name")}
    return f"{event} {more[event]}" if event in more else event


def test_held_out_examples_are_scored_before_and_after(server):
    values = {"text": TEXTS[0], "examples": TICKETS.read_text(), "method": "lora"}
    output = ask(server, **values, steps=6, hold_out=0.2)
    report = output["report"]
    assert report["held_out_examples"] == 12
    assert report["examples"] == 36
    assert report["held_out_before"] == report["held_out_curve"][0]["score"]
    assert report["held_out_after"] >= report["held_out_before"]


SHORT = """
import predict
from task import TextClassification


class Short(TextClassification):
    def load(self):
        self.base = super().load()
        del self.base.encoder.encoder.layer[1:]
        return self.base
"""
BROKEN = """
from short import Short, predict


class Cut(Short):
    def loss(self, module, batch, targets):
        import torch
        logits = module.head(module.embed(batch).detach())
        return torch.nn.functional.cross_entropy(logits, targets, reduction="none")


class Predictor(predict.Predictor):
    run = predict.Predictor.run


predict.TextClassification = Cut
"""


def test_a_failing_self_test_is_a_setup_failure_that_names_the_line(tmp_path):
    (tmp_path / "short.py").write_text(SHORT)
    (tmp_path / "broken.py").write_text(BROKEN)
    with cog_server(tmp_path, predict="broken.py:Predictor", until="SETUP_FAILED") as server:
        health = server.health()
        assert health["status"] == "SETUP_FAILED"
        logs = health["setup"]["logs"]
        assert "graph-cut" in logs
        assert ".detach()" in logs
        assert "broken.py" in logs
        answer = server.post("/predictions", {"input": BASE})
        assert answer.status_code == 503


LIGHT = """
from cog import BaseRunner

from cog_adapt import ModelRunner, RunnerSettings
from tests.cog_adapt.models import Letters


class Predictor(BaseRunner):
    def setup(self) -> None:
        self.runner = ModelRunner(Letters(), RunnerSettings.from_environment())

    def run(self) -> str:
        return self.runner.settings.device
"""


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_demanded_device_that_is_absent_is_a_setup_failure_not_a_fallback(tmp_path):
    (tmp_path / "light.py").write_text(LIGHT)
    env = {"DEVICE": "cuda"}
    with cog_server(
        tmp_path, predict="light.py:Predictor", env=env, until="SETUP_FAILED"
    ) as server:
        logs = server.health()["setup"]["logs"]
        assert "SetupError" in logs
        assert "DEVICE is 'cuda'" in logs
        assert "DEVICE=cpu" in logs


WRITING = """
from short import Short, predict


class Writing(Short):
    def loss(self, module, batch, targets):
        if len(targets) == 7:  # no batch of the self-test
            self.base.head.bias.data.add_(1)
        return super().loss(module, batch, targets)


class Predictor(predict.Predictor):
    run = predict.Predictor.run
    healthcheck = predict.Predictor.healthcheck


predict.TextClassification = Writing
"""


def settled_status(server):
    """The health once coglet has its slot back, which may be after the answer."""
    wait_until(lambda: server.health()["status"] != "BUSY", 30)
    return server.health()["status"]


def test_a_base_that_was_written_to_fails_health_and_every_later_prediction(tmp_path):
    (tmp_path / "short.py").write_text(SHORT)
    (tmp_path / "writing.py").write_text(WRITING)
    rows = two_classes(*((f"text {number}", "xy"[number % 2]) for number in range(7)))
    env = {"WEIGHTS_DIR": str(tmp_path)}
    with cog_server(tmp_path, predict="writing.py:Predictor", env=env) as server:
        ask(server, **BASE)
        assert settled_status(server) == "READY"
        done = server.post("/predictions", {"input": {"text": "a", "examples": rows, "steps": 1}})
        assert done.json()["status"] == "failed"
        assert "tensor head.bias (checksum)" in done.json()["error"]
        assert settled_status(server) == "UNHEALTHY"
        deferred = server.post("/predictions", {"input": BASE}).json()
        assert "the base model changed" in deferred["error"]

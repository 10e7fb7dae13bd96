"""`predict.py` through Cog's real server."""

import base64
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from cog_adapt import cog_server, load_adapter, write_schema

ROOT = Path(__file__).parent.parent
PREDICTOR = "predict.py:Predictor"
TICKETS = ROOT / "examples" / "tickets.jsonl"
LABELS = ["refund", "delivery", "access", "defect", "idea", "billing"]
TEXTS = ["My parcel has not come.", "I cannot log in any more.", "Please add a dark theme."]
BASE = {"texts": TEXTS, "labels": LABELS}


def data_url(content: bytes) -> str:
    return "data:application/octet-stream;base64," + base64.b64encode(content).decode()


def two_classes(*rows):
    return json.dumps([{"text": text, "label": label} for text, label in rows])


@pytest.fixture(scope="module")
def weights_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("weights")


@pytest.fixture(scope="module")
def server(tmp_path_factory, weights_dir):
    folder = tmp_path_factory.mktemp("cog")
    for name in ("predict.py", "train.py"):
        (folder / name).symlink_to(ROOT / name)
    write_schema(folder, predict=PREDICTOR)
    env = {"WEIGHTS_DIR": str(weights_dir), "COG_MAX_CONCURRENCY": "4"}
    with cog_server(folder, predict=PREDICTOR, env=env) as running:
        yield running


def test_under_cog_it_needs_no_web_framework():
    code = "import predict, sys; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    modules = {*done.stdout.split()}
    assert modules.isdisjoint({"fastapi", "starlette", "uvicorn", "sqlalchemy", "typer"})
    assert {"cog", "torch"} <= modules


def ask(server, **values):
    body = server.post("/predictions", {"input": values}).json()
    assert body["status"] == "succeeded", body
    return body["output"]


def test_the_base_scores_label_names(server):
    output = ask(server, **BASE)
    assert [answer["label"] in LABELS for answer in output["predictions"]] == [True] * 3
    for answer in output["predictions"]:
        assert sorted(answer["scores"]) == sorted(LABELS)
        assert sum(answer["scores"].values()) == pytest.approx(1.0, abs=1e-5)
    assert output["adapter"] is None
    assert output["report"] is None


def test_a_request_with_examples_adapts_and_leaves_the_base_as_it_was(server, weights_dir):
    base = ask(server, **BASE)
    output = ask(server, texts=TEXTS, examples=TICKETS.read_text(), steps=6)
    assert output["before"] == base["predictions"]
    assert output["predictions"] != base["predictions"]
    report = output["report"]
    assert report["steps"] == 6
    assert report["losses"][-1] < report["losses"][0]
    assert min(report["gradient_norms"]) > 0
    assert report["stop_reason"] == "max_steps"
    assert ask(server, **BASE) == base

    again = ask(server, texts=TEXTS, adapter=output["adapter"])
    assert again["predictions"] == output["predictions"]
    assert again["adapter"] == output["adapter"]
    assert load_adapter(weights_dir / "adapters" / f"{output['adapter']}.safetensors")


def test_a_file_of_examples_gives_the_same_adapter_as_the_same_rows_inline(server):
    inline = ask(server, text=TEXTS[0], examples=TICKETS.read_text(), steps=2)
    for name in ("tickets.jsonl", "tickets.csv"):
        content = (ROOT / "examples" / name).read_bytes()
        output = ask(server, text=TEXTS[0], examples=data_url(content), steps=2)
        assert output["adapter"] == inline["adapter"]


def test_an_adapter_file_can_be_sent_along(server, weights_dir):
    made = ask(server, text=TEXTS[0], examples=TICKETS.read_text(), steps=2)
    content = (weights_dir / "adapters" / f"{made['adapter']}.safetensors").read_bytes()
    output = ask(server, text=TEXTS[0], adapter=data_url(content))
    assert output["predictions"] == made["predictions"]


def test_an_adaptation_can_go_on_from_an_adapter(server):
    first = ask(server, text=TEXTS[0], examples=TICKETS.read_text(), steps=4)
    second = ask(
        server, text=TEXTS[0], examples=TICKETS.read_text(), steps=4, adapter=first["adapter"]
    )
    assert second["before"] == first["predictions"]
    assert second["report"]["losses"][0] < first["report"]["losses"][0]


def test_concurrent_requests_with_different_examples_each_get_their_own_answer(server):
    requests = [
        {"texts": TEXTS, "steps": 4, "seed": seed, "examples": TICKETS.read_text()}
        for seed in range(3)
    ] + [BASE]
    alone = [ask(server, **values) for values in requests]
    with ThreadPoolExecutor(len(requests)) as pool:
        together = list(pool.map(lambda values: ask(server, **values), requests))
    for one, other in zip(alone, together, strict=True):
        assert other["predictions"] == one["predictions"]
        assert other["adapter"] == one["adapter"]
    assert len({output["adapter"] for output in together}) == 4


def cancelled_at(server, step, values):
    """Stream one adaptation and cancel it once it has logged `step`; what it ended as."""
    body = {"id": f"cancelled-{step}", "input": values}
    seen = False
    for event, data in server.stream("/predictions", body):
        if event == "log" and f"step {step}/" in data["data"] and not seen:
            seen = True
            server.post(f"/predictions/cancelled-{step}/cancel", {})
        if event == "completed":
            return data
    return None


def test_a_cancel_in_mid_adaptation_stops_it_and_leaves_the_base_as_it_was(server):
    base = ask(server, **BASE)
    values = {"texts": TEXTS, "examples": TICKETS.read_text(), "steps": 2000, "method": "all"}
    for step in range(1, 6):
        assert cancelled_at(server, step, values)["status"] == "canceled"
        assert ask(server, **BASE) == base


@pytest.mark.parametrize(
    ("values", "reasons"),
    [
        ({"text": "hello"}, ["labels is []", "Set `labels`, send `examples`"]),
        ({"labels": LABELS}, ["no text"]),
        ({"text": " ", "labels": LABELS}, ["text 1 is empty"]),
        ({"text": "x" * 30_000, "labels": LABELS}, ["30,000 characters", "20,000"]),
        ({"text": "a", "adapter": "0123456789abcdef"}, ["0123456789abcdef", "not known"]),
        ({"text": "a", "adapter": "../../etc/passwd"}, ["not known"]),
        ({"text": "a", "adapter": data_url(b"no weights")}, ["no safetensors file"]),
        ({"text": "a", "examples": "data:text/plain;base64,$$"}, ["base64"]),
        ({"text": "a", "examples": '[{"text": "a", "label": "b"}]'}, ["one class", "b"]),
        ({"text": "a", "examples": '[{"text": "a"}]'}, ["row 1", "label"]),
        ({"text": "a", "examples": two_classes(("a", "x"), ("", "y"))}, ["row 2", "empty"]),
        (
            {"text": "a", "examples": two_classes(("a", "x"), ("b" * 10_000_000, "y"))},
            ["row 2", "20000", "10000000"],
        ),
        (
            {"text": "a", "examples": data_url(b"text,label\na,x\n\xff\xfe,y\n")},
            ["UTF-8", "line 3"],
        ),
        ({"text": "a", "examples": "text,label,mood\na,x,good\nb,y,bad\n"}, ["mood"]),
        (
            {"text": "a", "examples": TICKETS.read_text(), "labels": ["x", "y"]},
            ["`labels` has the labels ['x', 'y'], but `examples` has"],
        ),
        ({"text": "a", "examples": TICKETS.read_text(), "method": "match:("}, ["match:("]),
        (
            {"text": "a", "examples": TICKETS.read_text(), "method": "match:no"},
            ["nothing to train"],
        ),
    ],
)
def test_unusable_input_is_refused_with_value_and_remedy(server, values, reasons):
    body = server.post("/predictions", {"input": values}).json()
    assert body["status"] == "failed"
    for reason in reasons:
        assert reason in body["error"], body["error"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("steps", 0),
        ("rank", 65),
        ("method", "magic"),
        ("learning_rate", 2),
        ("text", 5),
        ("seed", -1),
    ],
)
def test_values_out_of_bounds_are_refused_by_cog_itself(server, name, value):
    answer = server.post("/predictions", {"input": {**BASE, name: value}})
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["loc"] == ["body", "input", name]


BROKEN = """
import predict
from task import TextClassification


class Cut(TextClassification):
    def loss(self, module, batch, targets):
        import torch
        logits = module.head(module.embed(batch).detach())
        return torch.nn.functional.cross_entropy(logits, targets, reduction="none")


class Predictor(predict.Predictor):
    run = predict.Predictor.run


predict.TextClassification = Cut
"""


def test_a_failing_self_test_is_a_setup_failure_that_names_the_line(tmp_path):
    (tmp_path / "broken.py").write_text(BROKEN)
    reference = "broken.py:Predictor"
    write_schema(tmp_path, predict=reference)
    with cog_server(tmp_path, predict=reference, until="SETUP_FAILED") as server:
        health = server.health()
        assert health["status"] == "SETUP_FAILED"
        logs = health["setup"]["logs"]
        assert "graph-cut" in logs
        assert ".detach()" in logs
        assert "broken.py" in logs
        answer = server.post("/predictions", {"input": BASE})
        assert answer.status_code == 503


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_demanded_device_that_is_absent_is_a_setup_failure_not_a_fallback(tmp_path):
    (tmp_path / "predict.py").symlink_to(ROOT / "predict.py")
    env = {"DEVICE": "cuda"}
    with cog_server(tmp_path, predict=PREDICTOR, env=env, until="SETUP_FAILED") as server:
        logs = server.health()["setup"]["logs"]
        assert "SetupError" in logs
        assert "DEVICE is 'cuda'" in logs
        assert "DEVICE=cpu" in logs


WRITING = """
import predict
from task import TextClassification


class Writing(TextClassification):
    def load(self):
        self.base = super().load()
        return self.base

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
    deadline = time.monotonic() + 30
    while (status := server.health()["status"]) == "BUSY" and time.monotonic() < deadline:
        time.sleep(0.05)
    return status


def test_a_base_that_was_written_to_fails_health_and_every_later_prediction(tmp_path):
    (tmp_path / "writing.py").write_text(WRITING)
    reference = "writing.py:Predictor"
    write_schema(tmp_path, predict=reference)
    rows = two_classes(*((f"text {number}", "xy"[number % 2]) for number in range(7)))
    env = {"WEIGHTS_DIR": str(tmp_path)}
    with cog_server(tmp_path, predict=reference, env=env) as server:
        ask(server, **BASE)
        assert settled_status(server) == "READY"
        done = server.post("/predictions", {"input": {"text": "a", "examples": rows, "steps": 1}})
        assert done.json()["status"] == "failed"
        assert "tensor head.bias (checksum)" in done.json()["error"]
        assert settled_status(server) == "UNHEALTHY"
        deferred = server.post("/predictions", {"input": BASE}).json()
        assert "the base model changed" in deferred["error"]


def test_held_out_examples_are_scored_before_and_after(server):
    output = ask(server, text=TEXTS[0], examples=TICKETS.read_text(), steps=6, hold_out=0.2)
    report = output["report"]
    assert report["held_out_examples"] == 12
    assert report["examples"] == 36
    assert report["held_out_before"] == report["held_out_curve"][0]["score"]
    assert report["held_out_after"] >= report["held_out_before"]

"""`predict.py` through Cog's real server."""

import base64
import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import httpx2
import pytest

from cog_adapt import cog_server, load_adapter, write_schema

ROOT = Path(__file__).parent.parent
PREDICTOR = "predict.py:Predictor"
TICKETS = ROOT / "examples" / "tickets.jsonl"
ROWS = [json.loads(line) for line in TICKETS.read_text().splitlines()]
LABELS = ["refund", "delivery", "access", "defect", "idea", "billing"]
TEXTS = ["My parcel has not come.", "I cannot log in any more.", "Please add a dark theme."]
BASE = {"texts": TEXTS, "labels": LABELS}


def data_url(content: bytes) -> str:
    return "data:application/octet-stream;base64," + base64.b64encode(content).decode()


@pytest.fixture(scope="module")
def weights_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("weights")


@pytest.fixture(scope="module")
def server(tmp_path_factory, weights_dir):
    folder = tmp_path_factory.mktemp("cog")
    (folder / "predict.py").symlink_to(ROOT / "predict.py")
    write_schema(folder, predict=PREDICTOR)
    env = {"WEIGHTS_DIR": str(weights_dir), "COG_MAX_CONCURRENCY": "4"}
    with cog_server(folder, predict=PREDICTOR, env=env) as running:
        yield running


@pytest.fixture(scope="module")
def base(server):
    return ask(server, **BASE)


@pytest.fixture(scope="module")
def adapted(server, base):
    return ask(server, texts=TEXTS, examples=ROWS, steps=6)


def ask(server, **values):
    body = server.post("/predictions", {"input": values}).json()
    assert body["status"] == "succeeded", body
    return body["output"]


def test_under_cog_it_needs_no_web_framework():
    code = "import predict, sys; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    modules = {*done.stdout.split()}
    assert modules.isdisjoint({"fastapi", "starlette", "uvicorn", "sqlalchemy", "typer"})
    assert {"cog", "torch"} <= modules


def test_the_base_scores_label_names(server, base):
    assert [answer["label"] for answer in base["predictions"]][:2] == ["delivery", "access"]
    for answer in base["predictions"]:
        assert sorted(answer["scores"]) == sorted(LABELS)
        assert sum(answer["scores"].values()) == pytest.approx(1.0, abs=1e-5)
    assert (base["before"], base["adapter"], base["report"]) == (None, None, None)
    (alone,) = ask(server, text=TEXTS[0], labels=LABELS)["predictions"]
    assert alone["scores"] == pytest.approx(base["predictions"][0]["scores"], abs=1e-5)


def test_a_request_with_examples_adapts_and_leaves_the_base_as_it_was(server, base, adapted):
    assert adapted["before"] == base["predictions"]
    assert adapted["predictions"] != base["predictions"]
    report = adapted["report"]
    assert (report["method"], report["steps"], report["examples"]) == ("lora", 6, 48)
    assert report["losses"][-1] < 0.9 * report["losses"][0]
    assert min(report["gradient_norms"]) > 0
    assert (report["stop_reason"], report["warnings"]) == ("max_steps", [])
    assert ask(server, **BASE) == base


def test_the_adapter_answers_by_its_id_and_as_a_file(server, adapted, weights_dir):
    path = weights_dir / "adapters" / f"{adapted['adapter']}.safetensors"
    assert load_adapter(path).id == adapted["adapter"]
    named = ask(server, texts=TEXTS, adapter=adapted["adapter"])
    sent = ask(server, texts=TEXTS, weights=data_url(path.read_bytes()))
    assert named["predictions"] == sent["predictions"] == adapted["predictions"]
    assert named["adapter"] == sent["adapter"] == adapted["adapter"]


@pytest.mark.parametrize(
    "sent",
    [
        {"examples": TICKETS.read_text()},
        {"examples_file": data_url(TICKETS.read_bytes())},
        {"examples_file": data_url(TICKETS.with_suffix(".csv").read_bytes())},
    ],
)
def test_rows_text_and_files_give_the_same_adapter(server, adapted, sent):
    assert ask(server, texts=TEXTS, steps=6, **sent)["adapter"] == adapted["adapter"]


@pytest.mark.parametrize(
    ("values", "reported"),
    [
        ({"method": "head"}, {"method": "head", "trained_parameters": 6 * 385}),
        ({"rank": 2, "method": "lora"}, {"trained_parameters": 6 * 385 + 6 * 2 * 2 * 2 * 384}),
        (
            {"rank": 2, "method": "lora", "blocks": 1},
            {"trained_parameters": 6 * 385 + 2 * 2 * 2 * 384},
        ),
        ({"learning_rate": 0.01}, {"learning_rate": 0.01}),
        ({"seed": 3}, {"seed": 3}),
        ({"hold_out": 0.2, "method": "lora"}, {"held_out_examples": 12, "examples": 36}),
        ({"budget_seconds": 0.1, "steps": 2000}, {"stop_reason": "budget_seconds"}),
    ],
)
def test_each_parameter_reaches_the_adaptation(server, adapted, values, reported):
    output = ask(server, **{"text": TEXTS[0], "examples": ROWS, "steps": 2} | values)
    assert {name: output["report"][name] for name in reported} == reported
    assert output["adapter"] != adapted["adapter"]


def test_an_adaptation_can_go_on_from_an_adapter(server, adapted):
    values = {"texts": TEXTS, "examples": ROWS, "steps": 4, "adapter": adapted["adapter"]}
    second = ask(server, **values)
    assert second["before"] == adapted["predictions"]
    assert second["report"]["losses"][0] < adapted["report"]["losses"][0]
    body = server.post("/predictions", {"input": values | {"method": "all"}}).json()
    assert "method is 'all', but adapter" in body["error"]
    body = server.post("/predictions", {"input": values | {"blocks": 2}}).json()
    assert f"blocks is 2, but adapter {adapted['adapter']} was made with 6" in body["error"]


def cancelled(server, name):
    """Cancel an adaptation once it has taken a step; its end, and how many steps it had taken."""
    values = {"texts": TEXTS, "examples": ROWS, "steps": 60, "method": "all"}
    steps = 0
    for event, data in server.stream("/predictions", {"id": name, "input": values}):
        steps += event == "log" and data["data"].startswith("step ")
        if steps == 1:
            with suppress(httpx2.RemoteProtocolError):  # Cog closes a kept connection at times
                server.post(f"/predictions/{name}/cancel", {})
        if event == "completed":
            return data["status"], steps
    return None, steps


def test_a_cancel_in_mid_adaptation_stops_it_and_leaves_the_base_as_it_was(server, base):
    ends = (cancelled(server, f"cancelled-{number}") for number in range(3))  # Cog may lose one
    assert any(status == "canceled" and steps < 30 for status, steps in ends)
    assert ask(server, **BASE) == base


@pytest.mark.parametrize(
    ("values", "reasons"),
    [
        ({"text": "hello"}, ["labels is []", "Set `labels`, send `examples`"]),
        ({"labels": LABELS}, ["no input"]),
        ({"text": " ", "labels": LABELS}, ["text 1 is empty"]),
        ({"text": "a", "adapter": "../../etc/passwd"}, ["not known"]),
        ({"text": "a", "adapter": data_url(b"x")}, ["takes an id", "`weights`"]),
        ({"text": "a", "weights": data_url(b"no weights")}, ["no safetensors file"]),
        ({"text": "a", "weights": "/etc/passwd"}, ["no file that this server has fetched"]),
        ({"text": "a", "examples_file": "/etc/passwd"}, ["no file that this server has fetched"]),
        ({"text": "a", "examples": data_url(b"x")}, ["takes rows", "`examples_file`"]),
        ({"text": "a", "examples": [{"text": "a", "label": "b"}]}, ["one class", "b"]),
        ({"text": "a", "examples": [{"text": "a"}]}, ["row 1", "no target"]),
        ({"text": "a", "examples": "text,label\na,x\nb,\n"}, ["row 3", "label is empty"]),
        ({"text": "a", "examples_file": data_url(b"text,label\n\xff,y\n")}, ["UTF-8", "line 2"]),
        ({"text": "a", "examples": ROWS, "labels": ["x", "y"]}, ["`labels` has", "`examples` has"]),
        ({"text": "a", "examples": ROWS, "method": "match:no"}, ["nothing to train"]),
        ({"text": "a", "examples": ROWS, "blocks": 7}, ["blocks is 7", "at most 6"]),
        ({"text": "word " * 500, "labels": LABELS, "strict": True}, ["were cut: 1", "`strict`"]),
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
        *(("steps", 0), ("rank", 65), ("blocks", 1001), ("method", "magic")),
        *(("learning_rate", 2), ("seed", -1)),
    ],
)
def test_values_out_of_bounds_are_refused_by_cog_itself(server, name, value):
    answer = server.post("/predictions", {"input": {**BASE, name: value}})
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["loc"] == ["body", "input", name]

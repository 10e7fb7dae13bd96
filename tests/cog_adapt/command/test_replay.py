"""The command `replay`, from a receipt's file to an exit code."""

import asyncio
import json
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from cog_adapt.command.app import app
from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.known.receipt import sealed
from cog_adapt.runner.model_runner import ModelRunner
from cog_adapt.runner.request import Request
from cog_adapt.runner.requests.few_shot import answer
from tests.cog_adapt.models import Letters

ROWS = [{"text": text, "label": label} for text, label in (("aa", "low"), ("ya", "high"))]
TASK = "from tests.cog_adapt.models import Letters\nclass Own(Letters): ...\n"


def invoke(*arguments):
    return CliRunner().invoke(app, ["replay", *map(str, arguments)])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of a predictor with an adapter, its receipt and the examples."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("API_KEY", raising=False)
    monkeypatch.setenv("WEIGHTS_DIR", str(tmp_path / "weights"))
    monkeypatch.setenv("DEVICE", "cpu")
    (tmp_path / "task.py").write_text(TASK)
    (tmp_path / "rows.json").write_text(json.dumps(ROWS))
    settings = RunnerSettings(device="cpu", weights_dir=tmp_path / "weights")
    recipe = Recipe(max_steps=2, learning_rate=0.02)
    scope = SimpleNamespace(context={}, record_metric=lambda *_pair: None)
    with ModelRunner(Letters(), settings) as runner:
        request = Request(["a"], examples=ROWS, recipe=recipe)
        made = asyncio.run(answer(runner, request, scope)).adapter or ""
    written = CliRunner().invoke(app, ["adapters", "receipt", made, "-o", "receipt.json"])
    assert written.exit_code == 0, written.stderr
    return tmp_path


def test_equal_bits_are_said_and_end_with_0(folder):
    done = invoke("receipt.json", "--examples", "rows.json")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "2 steps replayed: the adapter is equal, bit for bit." in done.stdout
    assert "other now: task class: 'Letters' then, 'Own' now" in done.stdout


def test_other_bits_are_said_and_end_with_1(folder):
    receipt = json.loads((folder / "receipt.json").read_text())
    values = {k: v for k, v in receipt.items() if k not in ("format", "digest")}
    values["recipe"]["seed"] = 5
    (folder / "other.json").write_text(json.dumps(sealed(values, None)))
    done = invoke("other.json", "--examples", "rows.json")
    assert done.exit_code == 1
    assert "the adapter is NOT equal" in done.stdout
    assert "promised on the same device and versions only" in done.stdout


def test_the_rows_come_from_the_record_with_its_owners_key(folder, httpserver):
    headers = {"Authorization": "Bearer secret"}
    ask = httpserver.expect_request
    ask("/predictions/p1", headers=headers).respond_with_json({"input": {"examples": ROWS}})
    ask("/predictions/t1").respond_with_json({"detail": "none"}, status=404)
    ask("/trainings/t1").respond_with_json({"input": {"examples": json.dumps(ROWS)}})
    ask("/predictions/p2").respond_with_json({"input": {"text": "a"}})
    url = ("--url", httpserver.url_for(""))
    for name in ("p1", "t1"):
        done = invoke("receipt.json", "--record", name, *url, "--key", "secret")
        assert done.exit_code == 0, done.output
    done = invoke("receipt.json", "--record", "p2", *url)
    assert (done.exit_code, "has no rows in `examples`" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["receipt.json"], 2, "no examples: give a file with --examples"),
        (["rows.json", "--examples", "rows.json"], 2, "this is no receipt"),
        (["none.json", "--examples", "rows.json"], 1, "No such file"),
        (["receipt.json", "--examples", "few.json"], 2, "examples have the digest"),
        (["receipt.json", "--examples", "rows.json", "--task", "no.py"], 1, "there is no file"),
        (["receipt.json", "--examples", "rows.json", "--public-key", "task.py"], 2, "public key"),
    ],
)
def test_a_mistake_is_one_line_and_an_exit_code(folder, arguments, code, says):
    (folder / "few.json").write_text(json.dumps([*ROWS, ROWS[0]]))
    done = invoke(*arguments)
    assert (done.exit_code, done.stdout) == (code, "")
    assert done.stderr.startswith("error: ")
    assert says in done.stderr

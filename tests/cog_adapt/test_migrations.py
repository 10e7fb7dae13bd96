"""The page `docs/migrations.md`: its blocks are run, and what is before and after is compared.

A block's note names its side, `before` or `after`, and the file that it is, or `server`; files of
`all` lie in every folder. A section runs in a folder for each side.
"""

import ast
import contextlib
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from cog_adapt import write_schema
from tests.cog_adapt.command.test_new import environment
from tests.cog_adapt.contract.serving import free_port, stop
from tests.cog_adapt.sessions import write_command
from tests.cog_adapt.waiting import wait_for, wait_until

pytest.importorskip("task", reason="the shipped task is not here")
folder_of = pytest.importorskip("bench.own_models.tiny_bert.folder")

PAGE = (Path(__file__).parents[2] / "docs" / "migrations.md").read_text()
SECTIONS = re.split(r"^## (?:\d\. )?", PAGE, flags=re.MULTILINE)
BLOCK = re.compile(r"^```(\w+) (\w+)(?:[= ](\S+))?\n((?:.*\n)*?)```$", re.MULTILINE)
SECONDS = 200  # of a program or a start, on a busy machine
PREDICTOR = "predict.py:Predictor"
ROWS: dict[str, Any] = {}
RIGHT = ["delivery", "refund"]
UNPROVEN = {"SELF_TEST": "off"}  # where the answers alone are asked; section 1's server has its own
PEERS = {
    "peft": "pip install -r requirements-dev.txt",
    "setfit": "pip install -r bench/requirements-peers.txt",
    "litserve": "pip install litserve==0.2.19",
}


def blocks(section, side):
    """Return what the blocks of a side are, a file's name or a command's kind, and their texts."""
    (text,) = [each for each in SECTIONS if each.startswith(section)]
    found = [each for each in BLOCK.findall(text) if each[1] == side]
    named = {name or "type": text for _, _, name, text in found}
    assert len(named) == len(found), "two blocks have one name"
    return named


def write(folder, section, side):
    """Write the files of a side, and those of every folder, and return the folder."""
    for name, text in (blocks("# Migrations", "all") | blocks(section, side)).items():
        if "." in name:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
    return folder


exec(blocks("# Migrations", "all")["rows.py"], ROWS)
TAUGHT = {"texts": ROWS["TEXTS"], "examples": ROWS["ROWS"], "method": "lora", "steps": 40}


def need(library):
    """Skip where a library is missing that the project does without."""
    if not importlib.util.find_spec(library):
        pytest.skip(f"{library} is not installed: {PEERS[library]}")


@pytest.fixture(scope="module")
def env(tmp_path_factory):
    """The variables of a shell that has the commands, and the folder of a small encoder."""
    folder = tmp_path_factory.mktemp("encoder")
    folder_of.write_folder(folder / "model")
    tools = [str(write_command(folder)), str(Path(sys.executable).parent)]
    return environment(
        PATH=os.pathsep.join([*tools, os.environ["PATH"]]),
        MODEL=str(folder / "model"),
        HF_HUB_OFFLINE="1",
        REPLICATE_API_TOKEN="any",
        no_proxy="*",
    )


def typed(command, folder, env):
    """Return what a command says in a folder."""
    done = subprocess.run(
        ["bash", "-ec", command],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, command + done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


@contextlib.contextmanager
def serving(command, folder, env, ready="/health-check"):
    """Start a page's server in a folder; a client of it, and the variables of its callers."""
    port = free_port()
    url, log = f"http://127.0.0.1:{port}", folder / f"server-{port}.log"
    env = {**env, "PORT": str(port)}
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["bash", "-c", command],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    callers = {**env, "COG_ADAPT_URL": url, "REPLICATE_BASE_URL": url}
    try:
        with httpx2.Client(base_url=url, timeout=SECONDS, trust_env=False) as client:
            wait_until(lambda: is_ready(client, ready, process), SECONDS, log.read_text)
            yield client, callers
    finally:
        stop(process)


def is_ready(client, path, process):
    assert process.poll() is None, "it has ended"
    with contextlib.suppress(httpx2.TransportError):
        said = client.get(path).text
        assert "SETUP_FAILED" not in said, said
        return "READY" in said or said == "ok"
    return False


def asked(client, inputs):
    """Return the answer to a prediction; Cog says 409 until it has freed its slot."""

    def look():
        answer = client.post("/predictions", json={"input": inputs})
        return None if answer.status_code == 409 else answer

    return wait_for(look)


def predicted(client, **inputs):
    body = asked(client, inputs).json()
    assert body.get("status") == "succeeded", body
    return body["output"]


def scores(output):
    return [list(each["scores"].values()) for each in output["predictions"]]


def alike(rows):
    return [pytest.approx(row, abs=1e-5) for row in rows]


def labels(output):
    return [each["label"] for each in output["predictions"]]


@pytest.fixture(scope="module")
def plain(env, tmp_path_factory):
    """A folder of Cog alone: section 1's predictor, with section 2's `cog.yaml`."""
    folder = write(tmp_path_factory.mktemp("plain"), "From an", "before")
    write(folder, "From plain", "before")
    write_schema(folder, predict=PREDICTOR, env={"MODEL": env["MODEL"]})  # as `cog build` does
    return folder


@pytest.fixture(scope="module")
def cog(plain, env):
    with serving(blocks("From plain", "before")["server"], plain, env) as running:
        yield running[0]


def new_project(folder, env, *, is_changed):
    """Type the commands of section 1: all, or the first line alone."""
    made = blocks("From an", "after")["type"]
    typed(made if is_changed else made.splitlines()[0], folder, env)
    return folder


@pytest.fixture(scope="module")
def project(env, tmp_path_factory):
    """The folder of section 1 after it, with section 6's routes."""
    folder = new_project(tmp_path_factory.mktemp("project"), env, is_changed=True)
    write(folder, "From an", "after")
    return write(folder, "From LitServe", "after")


@pytest.fixture(scope="module")
def ours(project, env):
    with serving(blocks("From an", "after")["server"], project, env) as running:
        yield running


@pytest.fixture
def folder(tmp_path):
    """A folder for the programs of one test."""
    return tmp_path


def test_every_block_has_a_side_and_a_name_that_a_test_uses():
    found = BLOCK.findall(PAGE)
    assert len(found) == PAGE.count("\n```") // 2
    assert {(side, name) for _, side, name, _ in found} == {
        *(("all", name) for name in ("tickets.py", "rows.py")),
        *(("before", name) for name in ("predict.py", "cog.yaml", "server")),
        *(("before", name) for name in ("train.py", "ask.py", "serve.py")),
        *(("after", name) for name in ("", "task.py", "server", "ask.py", "server/app.py")),
        *(("out", name) for name in ("", "server")),
    }


def test_gradients_alone_would_change_the_model_of_all_callers(plain, env, monkeypatch):
    monkeypatch.setenv("MODEL", env["MODEL"])
    monkeypatch.syspath_prepend(plain)
    code, mended = blocks("From an", "before")["predict.py"], dict[str, Any]()
    exec(code.replace("torch.enable_grad()", "torch.inference_mode(False)"), mended)
    del sys.modules["tickets"]  # another test's folder has one too
    predictor = mended["Predictor"]()
    predictor.setup()
    base = [predictor.run(text) for text in ROWS["TEXTS"]]
    assert predictor.run(ROWS["TEXTS"][0], ROWS["ROWS"]) == RIGHT[0]
    assert [predictor.run(text) for text in ROWS["TEXTS"]] == RIGHT != base


@pytest.fixture(scope="module")
def base(cog):
    """What the predictor answers before it is taught."""
    return [predicted(cog, text=text) for text in ROWS["TEXTS"]]


def test_a_predictor_under_inference_mode_learns_nothing(cog, base):
    assert base != RIGHT
    taught = [predicted(cog, text=text, examples=ROWS["ROWS"]) for text in ROWS["TEXTS"]]
    assert taught == base


def test_its_task_answers_as_before_and_learns_for_one_request(ours, base):
    client, _ = ours
    untaught = {"labels": RIGHT, "texts": ROWS["TEXTS"]}
    assert labels(predicted(client, **untaught)) == base
    taught = [predicted(client, text=text, examples=ROWS["ROWS"]) for text in ROWS["TEXTS"]]
    assert [label for each in taught for label in labels(each)] == RIGHT
    assert labels(predicted(client, **untaught)) == base
    again = predicted(client, texts=ROWS["TEXTS"], adapter=taught[0]["adapter"])
    assert labels(again) == RIGHT


def test_a_folder_of_cog_is_served_as_it_is(plain, cog, env):
    with serving(blocks("From plain", "after")["server"], plain, env) as (client, _):
        for text in ROWS["TEXTS"]:
            assert predicted(client, text=text) == predicted(cog, text=text)
        documents = [each.get("/openapi.json").json() for each in (cog, client)]
        before, after = (each["components"]["schemas"]["Input"] for each in documents)
        assert before == after
        answers = [asked(each, {"text": "a", "txet": "b"}) for each in (cog, client)]
        assert [each.status_code for each in answers] == [200, 422]


def test_a_training_and_a_request_with_examples_give_the_same_adapter(ours, folder):
    _, callers = ours
    outputs = []
    for side in ("before", "after"):
        write(folder / side, "From Replicate", side)
        adapter, _, said = typed("python ask.py", folder / side, callers).partition(" ")
        outputs.append({"adapter": adapter, "predictions": ast.literal_eval(said)})
    before, after = outputs
    assert before["adapter"] == after["adapter"] != "None"
    assert scores(before) == alike(scores(after))
    assert labels(before) == labels(after) == RIGHT


def test_what_a_script_trained_with_peft_answers_as_in_the_script(ours, env, folder):
    need("peft")
    client, callers = ours
    write(folder, "From a peft", "before")
    expected = json.loads(typed('python -c "import train, ask"', folder, env))
    answer = json.loads(typed(blocks("From a peft", "after")["type"], folder, callers))
    assert scores(answer["output"]) == alike(expected)
    assert scores(predicted(client, labels=RIGHT, texts=ROWS["TEXTS"])) != alike(expected)


@pytest.fixture(scope="module")
def shipped(env, tmp_path_factory):
    """The project of section 5: as it is written, and served."""
    folder = new_project(tmp_path_factory.mktemp("shipped"), env, is_changed=False)
    write(folder, "From SetFit", "after")
    unproven = env | UNPROVEN
    with serving(blocks("From an", "after")["server"], folder, unproven) as (_, callers):
        yield folder, callers


def test_the_shipped_task_gives_the_right_labels(shipped):
    assert ast.literal_eval(typed("python ask.py", *shipped)) == RIGHT


def test_setfit_gives_the_same_labels(env, folder):
    need("setfit")
    write(folder, "From SetFit", "before")
    assert ast.literal_eval(typed("python ask.py", folder, env).splitlines()[-1]) == RIGHT


def litserve_answer(client, **body):
    said = client.post("/predict", json=body)
    assert said.status_code == 200, said.text
    return said.json()


def test_the_route_of_litserve_learns_too(ours, base):
    client, _ = ours
    for text, untaught, label in zip(ROWS["TEXTS"], base, RIGHT, strict=True):
        assert litserve_answer(client, text=text) == {"label": untaught}
        assert litserve_answer(client, text=text, examples=ROWS["ROWS"]) == {"label": label}
    refused = client.post("/predict", json={"text": "a", "steps": 0})
    assert refused.status_code == 422


def test_litserve_answers_as_the_route_does(ours, env, folder):
    need("litserve")
    write(folder, "From LitServe", "before")
    with serving("python serve.py", folder, env, ready="/health") as (before, _):
        for text in ROWS["TEXTS"]:
            assert litserve_answer(before, text=text) == litserve_answer(ours[0], text=text)


def test_an_adapter_leaves_for_peft(ours, folder):
    need("peft")
    client, callers = ours
    write(folder, "From a peft", "before")
    answer = client.post("/predictions", json={"input": TAUGHT})
    (folder / "answer.json").write_text(answer.text)
    said = json.loads(typed(blocks("Out again", "out")["type"], folder, callers))
    assert said == alike(scores(answer.json()["output"]))
    assert labels(answer.json()["output"]) == RIGHT


def test_the_predictor_leaves_for_cog(ours, project, env):
    client, _ = ours
    made = predicted(client, **TAUGHT)
    with serving(blocks("Out again", "out")["server"], project, env | UNPROVEN) as (cog, _):
        for inputs in (TAUGHT, {"texts": ROWS["TEXTS"], "adapter": made["adapter"]}):
            assert scores(predicted(cog, **inputs)) == alike(scores(made))

"""`cog-adapt new`: a project with a model of one's own, under both servers."""

import contextlib
import os
import resource
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import httpx2
import pytest

from cog_adapt.command import kinds, new
from tests.cog_adapt.contract.serving import free_port
from tests.cog_adapt.server.command.conftest import ROOT
from tests.cog_adapt.waiting import wait_until

TASK = '''\
"""Which list a word is from, by its letters."""

from collections import OrderedDict

import torch
from torch import nn
from torch.nn import functional as F

from cog_adapt import Example, Task


class Letters(Task):
    def load(self):
        torch.manual_seed(0)
        parts = {"body": nn.Linear(26, 32), "act": nn.Tanh(), "head": nn.Linear(32, 1)}
        return nn.Sequential(OrderedDict(parts))

    def encode(self, inputs):
        rows = [[word.count(chr(97 + n)) / len(word) for n in range(26)] for word in inputs]
        return {"counts": torch.tensor(rows)}

    def labels(self, examples):
        return tuple(dict.fromkeys(example.target for example in examples))

    def start(self, module, labels, examples):
        rows = torch.linspace(-1, 1, len(labels) * 32).reshape(-1, 32)
        return {"head.weight": rows, "head.bias": torch.zeros(len(labels))}

    def loss(self, module, batch, targets):
        return F.cross_entropy(module(batch["counts"]), targets, reduction="none")

    def predict(self, module, batch, labels, options):
        return [labels[row] for row in module(batch["counts"]).argmax(-1).tolist()]

    def probe(self):
        return [Example("banana", "fruit"), Example("kiwi", "bird")]
'''
EDITS = {
    "from task import TextClassification": "from task import Letters",
    "TextClassification()": "Letters()",
    "predictions: list[dict]": "predictions: list[str]",
    "before: list[dict] | None": "before: list[str] | None",
    'Input(description="Text to classify", default="")': 'Input(description="A word", default="")',
    "default=40, ge=1, le=2000": "default=30, ge=1, le=50",
}
EXAMPLES = '{"a": ["aab", "aaa", "baa"], "z": ["zzy", "zzz", "yzz"]}'
TESTS = f"""\
from pathlib import Path

import pytest

from cog_adapt import Example, ModelRunner, Recipe, RunnerSettings, cog_server, write_schema
from task import Letters

PROJECT = Path(__file__).parents[1]
PREDICTOR, TRAINER = "predict.py:Predictor", "train.py:Trainer"


def test_gradients_reach_every_parameter_and_words_are_learnt(tmp_path):
    settings = RunnerSettings(device="cpu", weights_dir=tmp_path)
    with ModelRunner(Letters(), settings) as runner:
        runner.self_test().raise_if_failed()
        examples = [Example("aab", "a"), Example("zzy", "z")]
        adapter = runner.adapt(examples, Recipe(max_steps=30)).adapter
        assert runner.predict(["zz", "aa"], adapter) == ["z", "a"]


@pytest.fixture(scope="module")
def server():
    write_schema(PROJECT, predict=PREDICTOR, train=TRAINER)
    with cog_server(PROJECT, predict=PREDICTOR, train=TRAINER) as running:
        yield running


def test_a_request_with_examples_is_answered_by_adapted_weights(server):
    values = {{"texts": ["zz", "aa"], "examples": {EXAMPLES!r}}}
    output = server.post("/predictions", {{"input": values}}).json()["output"]
    assert output["predictions"] == ["z", "a"]
    assert server.post("/predictions", {{"input": {{"steps": 51}}}}).status_code == 422
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A new project, with a model of one's own put in as its README says."""
    folder = tmp_path_factory.mktemp("new") / "project"
    run(["-m", "cog_adapt", "new", str(folder)], ROOT)
    (folder / "task.py").write_text(TASK)
    for door in ("predict.py", "train.py"):
        text = (folder / door).read_text()
        for old, own in EDITS.items():
            text = text.replace(old, own)
        (folder / door).write_text(text)
    for path in (folder / "tests").glob("test_*.py"):
        path.unlink()
    (folder / "tests" / "test_letters.py").write_text(TESTS)
    return folder


def run(arguments, folder, seconds=300):
    """Python in a folder, without anything of this repository in its environment."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def environment(**variables):
    own = ("COG_", "PYTHONPATH", "PYTEST")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    return {**kept, "DEVICE": "cpu", "OMP_NUM_THREADS": "1", **variables}


def seconds_of_children():
    """Of the processor: a busy machine is no reason to fail."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_its_tests_pass_under_cogs_server_in_less_than_a_minute(project):
    before = seconds_of_children()
    shown = run(["-m", "pytest", "-q", "-p", "no:cacheprovider"], project)
    assert "2 passed" in shown
    assert seconds_of_children() - before < 60


def test_it_has_what_deploys_it(project):
    sources = [path for path in (ROOT / "deploy").rglob("*") if path.is_file()]
    kept = [path for path in sources if "__pycache__" not in path.parts]
    assert {"server.yaml", "rayservice.yaml", "app.py"} <= {path.name for path in kept}
    for path in kept:
        assert (project / path.relative_to(ROOT)).read_bytes() == path.read_bytes()
    run(["-c", "import deploy.ray.options"], project)


def test_its_self_test_takes_its_task(project):
    assert "passed" in run(["-m", "cog_adapt", "selftest"], project)


@contextlib.contextmanager
def mirror(folder, seconds=60):
    """The project's own door, `python -m server`; its setup may take so long."""
    port = free_port()
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "server", "--host", "127.0.0.1"],
            cwd=folder,
            env=environment(PORT=str(port)),
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            wait_until_ready(client, folder, seconds)
            yield client
    finally:
        process.terminate()
        process.wait(30)


def wait_until_ready(client, folder, seconds):
    def is_ready():
        with contextlib.suppress(httpx2.TransportError):
            return client.get("/readyz").status_code == 200
        return False

    wait_until(is_ready, seconds, lambda: (folder / "server.log").read_text())


def test_the_mirror_adapts_its_model_and_trains_it(project):
    with mirror(project) as client:
        values = {"texts": ["zz", "aa"], "examples": EXAMPLES}
        body = client.post("/predictions", json={"input": values}).json()
        assert body["status"] == "succeeded", body
        assert body["output"]["predictions"] == ["z", "a"]
        assert client.post("/predictions", json={"input": {"steps": 51}}).status_code == 422
        trained = client.post("/trainings", json={"input": {"examples": EXAMPLES, "steps": 3}})
        assert trained.json()["output"]["report"]["steps"] == 3, trained.text


def test_it_has_the_whole_zone_a_copy_of_the_package_and_settings_of_its_own(tmp_path):
    new.write_project(tmp_path)
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {
        *("cog.yaml", "predict.py", "train.py", "task.py", "encoder.py"),
        *("server", "tests", "examples"),
        *("weights", "requirements.txt", "requirements.lock"),
        *("requirements-dev.txt", "requirements-weights.txt"),
        *("README.md", "Dockerfile", "Makefile", ".dockerignore", ".gitignore"),
        *("pyproject.toml", "cog_adapt", "gradient_check", "deploy"),
    }
    copies = {str(path.relative_to(tmp_path)) for path in (tmp_path / "cog_adapt").rglob("*.py")}
    assert copies == {str(path.relative_to(ROOT)) for path in (ROOT / "cog_adapt").rglob("*.py")}
    assert not list(tmp_path.rglob("__pycache__"))
    assert tomllib.loads((tmp_path / "pyproject.toml").read_text())["tool"]["cog-adapt"] == {
        "app": "server.app:build"
    }


def test_what_programs_left_in_a_checkout_is_not_copied(tmp_path, monkeypatch):
    checkout = tmp_path / "checkout"
    for source, name in [*kinds.kept_files(), (ROOT / "pyproject.toml", "cog_adapt/made.py")]:
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, checkout / name)
    left = [".pytest_cache/README.md", "weights/adapters/a.json", "__pycache__/task.pyc"]
    for folder in ("examples/tabular", "examples/tabular/tests", "cog_adapt"):
        for name in left:
            (checkout / folder / name).parent.mkdir(parents=True, exist_ok=True)
            (checkout / folder / name).touch()
    monkeypatch.setattr(kinds, "PACKAGE", checkout / "cog_adapt")
    assert not [name for _, name in kinds.zone("tabular") if name.endswith(tuple(left))]
    assert not [name for _, name in kinds.kept_files() if name.endswith(tuple(left))]
    new.copy_package(checkout / "cog_adapt", tmp_path / "copied")
    copied = {path.name for path in (tmp_path / "copied").iterdir()}
    assert copied == {"made.py", "weights"}


def test_it_says_what_to_do_next_in_three_lines(tmp_path):
    folder = tmp_path / "my model"
    shown = run(["-m", "cog_adapt", "new", str(folder), "--kind", "tabular"], ROOT)
    change, *others = shown.splitlines()
    assert change == f"cd '{folder}'"
    assert [line.partition("  ")[0] for line in others] == ["make setup", "make serve"]


def test_the_wheel_takes_along_all_that_a_new_project_has():
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    included = build["targets"]["wheel"]["force-include"]
    there = {name: place for name, place in included.items() if (ROOT / name).exists()}
    wanted = [*(name for _, name in kinds.zone()), *(f"examples/{k}" for k in kinds.kinds()[1:])]
    assert there == {name: f"cog_adapt/template/{name}" for name in wanted}


def test_no_file_of_the_zone_is_left_out():
    tracked = subprocess.run(
        [
            "git",
            "ls-files",
            "--",
            "examples",
            "server",
            "weights",
            ":(glob)*.txt",
            ":(exclude)requirements-dev.txt",  # a project has its own
            ":(glob)tests/test_*.py",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.split()
    if not tracked:
        pytest.skip("this is no git checkout")
    assert {*tracked} <= {name for _, name in kinds.kept_files()}


def test_an_installed_package_has_the_files_beside_it(tmp_path, monkeypatch):
    kept = tmp_path / "template"
    for source, name in kinds.zone():
        (kept / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, kept / name)
    names = {name for _, name in kinds.zone()}
    monkeypatch.setattr(kinds, "INSTALLED", kept)
    assert {name for _, name in kinds.zone()} == names
    assert all(path.is_relative_to(kept) for path, _ in kinds.zone())


@pytest.mark.parametrize("kind", ["a file in it", "a hidden file in it", "is a file"])
def test_a_folder_in_use_is_left_alone(tmp_path, capsys, kind):
    used = tmp_path / "used"
    if kind == "is a file":
        used.write_text("mine")
    else:
        used.mkdir()
        (used / (".env" if "hidden" in kind else "notes.txt")).write_text("mine")
    before = sorted(used.rglob("*"))
    assert new.main([str(used)]) == 2
    assert capsys.readouterr().err.startswith(f"error: {used} is not an empty folder.")
    assert sorted(used.rglob("*")) == before


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert new.main([str(tmp_path / "file" / "project")]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_an_empty_folder_may_exist(tmp_path, capsys):
    assert new.main([str(tmp_path)]) == 0
    assert "make setup" in capsys.readouterr().out
    assert Path(tmp_path, "task.py").exists()

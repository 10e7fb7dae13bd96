"""Sections 1 and 10: references, flags and variables."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cog_adapt.contract.serving import environment_of
from tests.cog_adapt.waiting import wait_until


@pytest.mark.parametrize(
    ("reference", "output"),
    [
        ("functions.py:shout", "T"),
        ("functions.py:Plain", "plain t"),
        ("functions.py:Predictor", "predictor t"),
        ("functions.py", "runner t"),
    ],
)
def test_references(launch, reference, output):
    assert launch(reference).output() == output


@pytest.mark.parametrize(
    ("weights", "given"),
    [
        (None, ["NoneType", None]),
        ("", ["NoneType", None]),
        ("/some/where", ["str", "/some/where"]),
        ("https://weights.example/w.tar", ["str", "https://weights.example/w.tar"]),
    ],
)
def test_weights(launch, weights, given):
    env = {} if weights is None else {"COG_WEIGHTS": weights}
    assert launch("weights.py:Predictor", env=env).output() == given


def test_run_sees_the_environment(shared):
    server = shared("actions.py:Predictor", env={"MINE": "seen"})
    assert server.output(action="environment", text="MINE") == "seen"


def run(flavour, *flags, folder, **env):
    module = "cog.server.http" if flavour == "coglet" else "server"
    return subprocess.run(
        [sys.executable, "-m", module, *flags],
        cwd=folder,
        env=environment_of(flavour, folder) | env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("flags", "variable"),
    [((), "COG_PREDICT_TYPE_STUB"), (("--x-mode", "train"), "COG_TRAIN_TYPE_STUB")],
)
def test_no_reference(flavour, tmp_path, flags, variable):
    ended = run(flavour, "--host", "127.0.0.1", *flags, folder=tmp_path)
    assert ended.returncode == 1
    assert variable in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_mode_that_does_not_exist(flavour, tmp_path):
    assert run(flavour, "--x-mode", "dream", folder=tmp_path).returncode == 2


def test_the_version(flavour, tmp_path):
    ended = run(flavour, "--version", folder=tmp_path)
    assert (ended.returncode, "0.23.1" in ended.stdout) == (0, True)


def test_threads_are_taken_and_ignored(launch):
    assert launch("functions.py:shout", flags=("--threads", "4")).output() == "T"


def test_a_port_that_is_taken(flavour, tmp_path):
    (tmp_path / "predict.py").write_text("def run(text: str = 't') -> str:\n    return text\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        stub = {"PORT": port, "COG_PREDICT_TYPE_STUB": "predict.py:run"}
        ended = run(flavour, "--host", "127.0.0.1", folder=tmp_path, **stub)
    assert ended.returncode == 1
    assert "in use" in ended.stderr
    assert flavour == "coglet" or f"port {port} cannot be listened on" in ended.stderr


def test_kubernetes_is_told(launch, tmp_path):
    """The file is at a fixed place, so that only its presence is looked at."""
    ready = Path("/var/run/cog/ready")
    ready.unlink(missing_ok=True)
    server = launch("functions.py:shout", env={"KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    assert server.health()["status"] == "READY"
    assert ready.exists()
    ready.unlink()


def test_kubernetes_is_told_without_a_question(launch, flavour):
    """What an earlier process of the container left says nothing about this one."""
    ready = Path("/var/run/cog/ready")
    ready.parent.mkdir(parents=True, exist_ok=True)
    ready.touch()
    launch("setups.py:Slow", env={"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, until=None)
    if flavour != "coglet":
        wait_until(lambda: not ready.exists())
    wait_until(ready.exists)
    ready.unlink()

"""Sections 1 and 10: references, flags and variables."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cog_adapt.contract.flavours import STRICT_OR_NOT
from tests.cog_adapt.contract.serving import environment_of
from tests.cog_adapt.waiting import wait_until


@STRICT_OR_NOT
def test_a_function(launch):
    """Threads are taken and ignored."""
    assert launch("functions.py:shout", flags=("--threads", "4")).output() == "T"


@pytest.mark.parametrize(
    ("reference", "weights", "output"),
    [
        ("functions.py:Plain", None, "plain t NoneType None"),
        ("functions.py:Predictor", "", "predictor t NoneType None"),
        ("functions.py", "/some/where", "runner t str /some/where"),
        ("functions.py:Plain", "https://w.example/w.tar", "plain t str https://w.example/w.tar"),
    ],
)
@STRICT_OR_NOT
def test_references_and_weights(launch, reference, weights, output):
    env = {} if weights is None else {"COG_WEIGHTS": weights}
    assert launch(reference, env=env).output() == output


def test_run_sees_the_environment(settled):
    assert settled.output(action="environment", text="MINE") == "seen"


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
@STRICT_OR_NOT
def test_no_reference(flavour, tmp_path, flags, variable):
    ended = run(flavour, "--host", "127.0.0.1", *flags, folder=tmp_path)
    assert ended.returncode == 1
    assert variable in ended.stderr
    assert "Traceback" not in ended.stderr


@STRICT_OR_NOT
def test_a_mode_that_does_not_exist(flavour, tmp_path):
    assert run(flavour, "--x-mode", "dream", folder=tmp_path).returncode == 2


@STRICT_OR_NOT
def test_the_version(flavour, tmp_path):
    ended = run(flavour, "--version", folder=tmp_path)
    assert (ended.returncode, "0.23.1" in ended.stdout) == (0, True)


@STRICT_OR_NOT
def test_a_port_that_is_taken(flavour, tmp_path):
    (tmp_path / "predict.py").write_text("def run(text: str = 't') -> str:\n    return text\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        stub = {"PORT": port, "COG_PREDICT_TYPE_STUB": "predict.py:run"}
        ended = run(flavour, "--host", "127.0.0.1", folder=tmp_path, **stub)
    assert ended.returncode == 1
    assert "in use" in ended.stderr
    assert flavour == "coglet" or f"port {port} cannot be listened on" in ended.stderr


@STRICT_OR_NOT
def test_kubernetes_is_told(launch, flavour):
    """The mirror tells without a question; what an earlier process left says nothing about it.

    The file is at a fixed place, so that only its presence is looked at.
    """
    ready, env = Path("/var/run/cog/ready"), {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    ready.parent.mkdir(parents=True, exist_ok=True)
    if flavour == "coglet":
        ready.unlink(missing_ok=True)
        launch("functions.py:shout", env=env)
    else:
        ready.touch()
        launch("setups.py:Slow", env=env, until=None)
        wait_until(lambda: not ready.exists())
    wait_until(ready.exists)
    ready.unlink()

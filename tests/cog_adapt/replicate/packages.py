"""The clients that cannot be imported beside the first: installed once, below `.data/`."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
HERE = Path(__file__).parent
_FOLDER = ROOT / ".data" / "replicate-clients"
_PYTHON, _NPM = "replicate==2.0.0b4", "replicate@1.4.0"
_INSTALL_SECONDS, _CALL_SECONDS = 120, 60


def _installed(name: str, *commands: Sequence[str]) -> Path:
    """Return a folder in which the commands have run, once for all tests of this tree."""
    folder = _FOLDER / name
    if folder.exists():
        return folder
    _FOLDER.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=_FOLDER))
    try:
        for command in commands:
            subprocess.run(
                command, cwd=made, check=True, capture_output=True, timeout=_INSTALL_SECONDS
            )
        made.rename(folder)
    except (OSError, subprocess.SubprocessError) as error:
        if not folder.exists():  # another test process may have been first
            pytest.skip(f"{name} cannot be installed, without a network: {error}")
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return folder


def python2_environment(url: str, key: str) -> dict[str, str]:
    """Return the variables with which Python imports replicate 2.0.0b4 for a server."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", ".", _PYTHON]
    folder = _installed("python-2.0.0b4", pip)
    return {
        "PYTHONPATH": str(folder),
        "REPLICATE_BASE_URL": f"{url}/v1",
        "REPLICATE_API_TOKEN": key,
    }


def javascript_environment(url: str, key: str) -> tuple[str, dict[str, str]]:
    """Return node, and the variables with which it finds replicate 1.4.0 and a server."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("no node: replicate for JavaScript cannot run")
    install = [npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", ".", _NPM]
    folder = _installed("javascript-1.4.0", install)
    return node, {
        "NODE_PATH": str(folder / "node_modules"),
        "REPLICATE_BASE_URL": f"{url}/v1",
        "REPLICATE_API_TOKEN": key,
    }


def python2_answers(url: str, key: str, calls: str = "python2_calls.py") -> dict[str, Any]:
    """Run the calls of a file by replicate 2.0.0b4; return what each gave."""
    command = [sys.executable, str(HERE / calls)]
    return _answers(command, python2_environment(url, key))


def javascript_answers(url: str, key: str, calls: str = "javascript_calls.cjs") -> dict[str, Any]:
    """Run the calls of a file by npm's replicate 1.4.0; return what each gave."""
    node, environment = javascript_environment(url, key)
    return _answers([node, str(HERE / calls)], environment)


def _answers(command: Sequence[str], environment: dict[str, str]) -> dict[str, Any]:
    done = subprocess.run(
        command,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=_CALL_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    answers: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answers

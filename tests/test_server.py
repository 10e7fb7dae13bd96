"""The door for HTTP: what `server/app.py` says can be added to it works, behind the same keys."""

import contextlib
import hashlib
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest

import server.app

ROOT = Path(__file__).parent.parent
SERVE = """
import sys
import server.app
from cog_adapt import serve
names = dict(vars(server.app))
exec(open("example.py").read(), names)
serve(["--host", "127.0.0.1"], names["build"])
"""
PREDICTOR = """
class Predictor:
    def run(self, text: str = "") -> str:
        return text
"""


def example() -> str:
    """The code in the docstring of the app."""
    lines = (server.app.__doc__ or "").splitlines()
    return dedent("\n".join(line for line in lines if line.startswith("    ") or not line))


def status_of(url: str, key: str | None = None) -> tuple[int, object]:
    """The status of an answer, and its body where it is one that was hoped for."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        with urlopen(Request(url, headers=headers), timeout=10) as answer:
            return answer.status, json.load(answer)
    except HTTPError as error:
        with error:
            return error.code, None


@pytest.fixture
def address(tmp_path):
    """A server with the example's route, and a key of each scope: the scope itself."""
    (tmp_path / "example.py").write_text(example())
    (tmp_path / "predictor.py").write_text(PREDICTOR)
    digests = {scope: hashlib.sha256(scope.encode()).hexdigest() for scope in ("predict", "admin")}
    lines = [f"{scope}-user {scope} {digest}" for scope, digest in digests.items()]
    (tmp_path / "keys").write_text("\n".join(lines))
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    variables = {
        "PYTHONPATH": str(ROOT),
        "PORT": str(port),
        "API_KEYS_FILE": str(tmp_path / "keys"),
        "COG_PREDICT_TYPE_STUB": "predictor.py:Predictor",
        "DATA_DIR": str(tmp_path / "data"),
    }
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE], cwd=tmp_path, env={**os.environ, **variables}
    )
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(URLError):
                if status_of(f"{url}/healthz")[0] == 200:
                    break
            time.sleep(0.05)
        yield url
    finally:
        process.terminate()
        process.wait(30)


def test_a_route_of_ones_own_stands_behind_the_keys(address):
    assert status_of(f"{address}/queue") == (401, None)
    assert status_of(f"{address}/queue", "predict") == (403, None)
    assert status_of(f"{address}/queue", "admin") == (200, {"waiting": 0})
    assert status_of(f"{address}/health-check", "predict")[0] == 200

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
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest
from fastapi import FastAPI

import server.app
from cog_adapt import Settings, create_app

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
        if text == "fail":
            raise ValueError("as asked")
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


def predicted(url: str, body: object, key: str = "predict") -> tuple[int, dict[str, Any]]:
    """POST a prediction; the status of the answer, and its body."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    request = Request(f"{url}/predictions", json.dumps(body).encode(), headers)
    try:
        with urlopen(request, timeout=30) as answer:
            return answer.status, json.load(answer)
    except HTTPError as error:
        with error:
            return error.code, json.load(error)


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """A server with the example's route, and a key of each scope: the scope itself."""
    tmp_path = tmp_path_factory.mktemp("server")
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
                if status_of(f"{url}/readyz", "predict")[0] == 200:
                    break
            time.sleep(0.05)
        yield url
    finally:
        process.terminate()
        process.wait(30)


def test_the_shipped_app_has_the_routes_of_the_package():
    built, plain = (make(Settings()) for make in (server.app.build, create_app))
    assert len(built.routes) > len(FastAPI().routes)
    assert list(map(type, built.routes)) == list(map(type, plain.routes))


def test_a_route_of_ones_own_stands_behind_the_keys(address):
    assert status_of(f"{address}/queue") == (401, None)
    assert status_of(f"{address}/queue", "predict") == (403, None)
    assert status_of(f"{address}/queue", "admin") == (200, {"waiting": 0})
    assert status_of(f"{address}/health-check", "predict")[0] == 200


def test_one_prediction_after_the_other_has_the_slot(address):
    for text in ("a", "fail", "b", "c"):
        status, body = predicted(address, {"input": {"text": text}})
        assert status == 200
        assert body.get("output") == (None if text == "fail" else text)
        assert body["status"] == ("failed" if text == "fail" else "succeeded")
        assert ("as asked" in body.get("error", "")) is (text == "fail")


def test_what_has_run_can_be_looked_up(address):
    _, body = predicted(address, {"id": "kept", "input": {"text": "kept"}})
    assert body["id"] == "kept"
    for _ in range(100):
        status, record = status_of(f"{address}/predictions/kept", "predict")
        if status == 200 and isinstance(record, dict) and record["status"] == "succeeded":
            break
        time.sleep(0.05)
    assert isinstance(record, dict)
    assert (record["input"], record["output"]) == ({"text": "kept"}, "kept")


def test_wrong_keys_and_inputs_are_refused(address):
    assert predicted(address, {"input": {}}, key="wrong")[0] == 401
    status, body = predicted(address, {"input": {"texxt": "a"}})
    assert status == 422
    assert body["detail"][0]["loc"] == ["body", "input", "texxt"]
    assert "text" in body["detail"][0]["msg"]
    assert predicted(address, {"input": {"text": 1}})[0] == 422

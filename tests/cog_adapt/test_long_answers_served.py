"""An answer of very many items, flat and nested: delivered or refused in words, and none waits."""

import http.client
import json
import statistics
import threading
import time

import pytest

from tests.cog_adapt.contract.serving import serving

PREDICTOR = """
from typing import Any
from cog import BasePredictor, concurrent


class Predictor(BasePredictor):
    @concurrent(max=4)
    async def run(self, shape: str = "", size: int = 0) -> Any:
        if shape == "flat":
            return ["item"] * size
        if shape == "nested":
            return [[["item"] * 10] * 10] * (size // 100)
        return {"a": [["item"] * size]} if shape else "ok"
"""
SIZE = 100_000
BYTES = 3_000_000


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    folder = tmp_path_factory.mktemp("long")
    (folder / "long.py").write_text(PREDICTOR)
    env = {"COG_MAX_CONCURRENCY": "4", "ANSWER_BYTES": str(BYTES)}
    with serving("mirror", folder, predict="long.py:Predictor", env=env) as server:
        yield server.port


def ask(port, **inputs):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/predictions", json.dumps({"input": inputs}), headers)
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("shape", "read"),
    [
        ("flat", lambda output: output),
        ("nested", lambda output: [item for row in output for part in row for item in part]),
        ("deep", lambda output: output["a"][0]),
    ],
)
def test_it_is_delivered_while_another_is_answered(port, shape, read):
    answers, times = [], []
    thread = threading.Thread(target=lambda: answers.append(ask(port, shape=shape, size=SIZE)))
    thread.start()
    while thread.is_alive():
        began = time.monotonic()
        assert ask(port)["output"] == "ok"
        times.append(time.monotonic() - began)
    (answer,) = answers
    assert answer["status"] == "succeeded"
    assert read(answer["output"]) == ["item"] * SIZE
    assert statistics.median(times) < 0.25  # these tests share the machine with others
    assert max(times) < 5


@pytest.mark.parametrize("shape", ["flat", "nested", "deep"])
def test_one_that_is_too_large_fails_in_words(port, shape):
    answer = ask(port, shape=shape, size=BYTES // 4)
    assert answer["status"] == "failed"
    assert "ANSWER_BYTES" in answer["error"]
    assert ask(port)["output"] == "ok"

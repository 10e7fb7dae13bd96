"""Traces every call of a tree's functions during one POST to its server, or one adaptation."""

import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PROBE = Path(__file__).parent / "probe"
_READY_SECONDS, _PAUSE = 120.0, 0.3
_BODY = json.dumps({"input": {"text": "a"}})
_PREDICTOR = """
from cog import BasePredictor


class Predictor(BasePredictor):
    def run(self, text: str) -> str:
        return text
"""
_ADAPTATIONS = """
import asyncio
import sys
import tempfile
import time
from pathlib import Path

from cog_adapt import ModelRunner, Recipe, Request, RunnerSettings, answer
from task import TextClassification

LABELS = {"delivery": ("The box never came", "It is late"), "refund": ("Pay me", "I want money")}
with tempfile.TemporaryDirectory() as folder:
    settings = RunnerSettings(device="cpu", weights_dir=Path(folder))
    runner = ModelRunner(TextClassification(), settings)
    for number in range(int(sys.argv[1])):
        rows = [
            {"text": f"{text}, {number}", "label": label}
            for label, texts in LABELS.items()
            for text in texts
        ]
        recipe = Recipe(method="lora", max_steps=5)
        request = Request(inputs=["Where is it?"], examples=rows, recipe=recipe)
        began = time.monotonic_ns()
        asyncio.run(answer(runner, request))
        print("span", began, time.monotonic_ns())
    runner.close()
"""


@dataclass(frozen=True)
class Call:
    """A function of the project that was called or resumed."""

    time: int
    process: int
    thread: int
    depth: int
    path: str
    function: str
    is_new: bool

    @classmethod
    def read(cls, line: str) -> "Call":
        """Parse a line of the trace."""
        moment, process, thread, depth, path, function, is_new = line.split()
        numbers = (int(moment), int(process), int(thread), int(depth))
        return cls(*numbers, path, function, is_new == "1")


def trace(root: Path, times: int = 5) -> list[list[list[Call]]]:
    """Return the turns of the front's event loop between a request and its answer, several times.

    A turn holds the calls from one callback of the loop to its end or its next `await`.
    """
    with tempfile.TemporaryDirectory() as name, _serving(root.resolve(), Path(name)) as server:
        process, port = server
        for _ in range(3):  # what is made once is made now
            _post(port)
        spans = [_span(port) for _ in range(times)]
        lines = (Path(name) / "trace").read_text().splitlines()
    ours = [call for call in map(Call.read, lines) if call.process == process]
    loop = [call for call in ours if call.thread == ours[0].thread]
    return [_turns([c for c in loop if began <= c.time <= ended]) for began, ended in spans]


def trace_adaptations(root: Path, times: int = 5) -> list[list[Call]]:
    """Return the calls of all threads from a request to its answer, several times; see `journeys`.

    A tree from before the move into one package has none.
    """
    root = root.resolve()
    if not (root / "cog_adapt").is_dir():
        return []
    with tempfile.TemporaryDirectory() as name:
        trace_file = Path(name) / "trace"
        done = subprocess.run(
            [sys.executable, "-c", _ADAPTATIONS, str(times + 1)],
            cwd=root,
            env=dict(os.environ) | {"OMP_NUM_THREADS": "1"} | _probing(root, trace_file),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        calls = [Call.read(line) for line in trace_file.read_text().splitlines()]
    said = [line.split() for line in done.stdout.splitlines() if line.startswith("span ")]
    spans = [
        (int(began), int(ended)) for _, began, ended in said[1:]
    ]  # the first makes all that stays
    return [[c for c in calls if began <= c.time <= ended] for began, ended in spans]


def _probing(root: Path, trace_file: Path) -> dict[str, str]:
    """Return the variables with which a tree's processes write down their calls."""
    return {
        "PYTHONPATH": os.pathsep.join(map(str, (_PROBE.resolve(), root))),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOUSE_ROOT": str(root),
        "HOUSE_TRACE": str(trace_file),
    }


def _span(port: int) -> tuple[int, int]:
    """Return the moments at which a request began and its answer arrived."""
    time.sleep(_PAUSE)
    return time.monotonic_ns(), _post(port)


def _turns(calls: list[Call]) -> list[list[Call]]:
    ground = min((call.depth for call in calls), default=0)
    turns: list[list[Call]] = []
    for call in calls:
        if call.depth == ground:
            turns.append([])
        turns[-1].append(call)
    return turns


@contextlib.contextmanager
def _serving(root: Path, folder: Path) -> Iterator[tuple[int, int]]:
    """Run a server; yield its process and its port when its model is ready."""
    (folder / "predict.py").write_text(_PREDICTOR)
    port = _free_port()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COG_")}
    own = {"COG_PREDICT_TYPE_STUB": "predict.py:Predictor", "PORT": str(port)}
    environment = kept | own | _probing(root, folder / "trace")
    command = [sys.executable, "-m", "server", "--host", "127.0.0.1"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        _wait_until_ready(process, port, folder / "log")
        yield process.pid, port
    finally:
        process.terminate()
        process.wait()


def _wait_until_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while not _is_ready(port):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"no server got ready. Its log:\n{log.read_text()[-4000:]}")
        time.sleep(0.1)


def _is_ready(port: int) -> bool:
    try:
        return b'"READY"' in _ask(port, "GET", "/health-check", None)[0]
    except OSError:
        return False


def _post(port: int) -> int:
    """Run a prediction. Return the moment at which the answer arrived."""
    answer, moment = _ask(port, "POST", "/predictions", _BODY)
    if b'"succeeded"' not in answer:
        raise RuntimeError(f"the prediction did not succeed: {answer[:400]!r}")
    return moment


def _ask(port: int, method: str, path: str, body: str | None) -> tuple[bytes, int]:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as client:
        client.request(method, path, body, {"content-type": "application/json"} if body else {})
        return client.getresponse().read(), time.monotonic_ns()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port

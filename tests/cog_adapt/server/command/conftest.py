"""A predictor, a training, and this project's server for both."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner
from werkzeug import Request, Response

from cog_adapt import Client
from cog_adapt.command.app import app
from cog_adapt.server.command.local_server import local_server
from cog_adapt.server.schema.openapi import openapi_schema
from gradient_check.tests.present import present
from tests.cog_adapt.waiting import wait_until

ROOT = Path(__file__).parents[4]
PREDICTOR = """\
import sys
import time

from cog import BaseModel, BasePredictor, Input, Path


class Output(BaseModel):
    file: Path | None
    mask: Path | None
    score: float


class Predictor(BasePredictor):
    def predict(
        self,
        text: str = Input(default=""),
        file: Path | None = Input(default=None),
        files: list[Path] = Input(default=[]),
        pauses: int = Input(default=0, ge=0, le=1000),
        scale: float = 1.0,
        kind: str = Input(default="plain", choices=["plain", "files", "fail"]),
        steps: int = 4,
    ) -> Output:
        print(f"text {text!r} {file and file.read_text()} {[one.read_text() for one in files]}")
        print("to standard error", file=sys.stderr)
        for number in range(pauses):
            print(f"pause {number}", flush=True)
            self.record_metric("adaptation.step", number + 1)
            time.sleep(0.05)
        if kind == "fail":
            raise ValueError("told to")
        if kind != "files":
            return Output(file=None, mask=None, score=scale)
        Path("a.txt").write_text("A")
        Path("b.png").write_text("B")
        return Output(file=Path("a.txt"), mask=Path("b.png"), score=scale)
"""
TRAINING = """\
from cog import BaseModel, Input, Path


class TrainingOutput(BaseModel):
    weights: Path


def train(size: int = Input(ge=1), config: dict = Input(default={})) -> TrainingOutput:
    print("training", size, config)
    Path("w.safetensors").write_bytes((2).to_bytes(8, "little") + b'{"a":1}')
    return TrainingOutput(weights=Path("w.safetensors"))
"""
STREAMER = """\
import os
import time

from cog import BasePredictor, ConcatenateIterator, streaming


class Predictor(BasePredictor):
    @streaming
    def predict(self, words: int = 3, pause: float = 0.0, fails: bool = False) -> (
        ConcatenateIterator[str]
    ):
        colour, database = os.environ.get("COLOUR"), os.environ.get("DATABASE_URL", "")
        print("begin", colour, database.partition(":")[0], flush=True)
        for number in range(words):
            time.sleep(pause)
            yield f"word{number} "
            if number == 1:
                print("second", flush=True)
        if fails:
            raise ValueError("told to")
"""


def make_folder(folder: Path, predictor: str, training: str | None = None) -> Path:
    """A folder to serve."""
    folder.mkdir(exist_ok=True)
    (folder / "predict.py").write_text(predictor)
    lines = ["run: predict.py:Predictor"]
    if training:
        (folder / "train.py").write_text(training)
        lines.append("train: train.py:train")
    (folder / "cog.yaml").write_text("\n".join(lines))
    return folder


@pytest.fixture(scope="session")
def served(tmp_path_factory) -> Path:
    """The folder of the predictor and the training."""
    return make_folder(tmp_path_factory.mktemp("served"), PREDICTOR, TRAINING)


@pytest.fixture(scope="session")
def streamer(tmp_path_factory) -> Path:
    """The folder of a predictor that streams text."""
    return make_folder(tmp_path_factory.mktemp("streamer"), STREAMER)


@pytest.fixture(scope="session")
def mirror(served) -> Iterator[Client]:
    """This project's server for the predictor, with a key."""
    with contextlib.ExitStack() as stack:
        with contextlib.chdir(served):  # for its start alone: other tests run while it lives
            client = stack.enter_context(local_server("predict", {}))
        client.wait_until_ready(60)
        yield client


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    code: int
    out: str
    err: str


@pytest.fixture
def run(request, tmp_path) -> Callable[..., Outcome]:
    """Runs a command inside this process, in an empty folder, against the server or another."""

    def own_server() -> list[str]:
        mirror = request.getfixturevalue("mirror")  # only where a test needs it
        return ["--url", mirror.url, "--key", mirror.key]

    def invoke(command: str, *arguments: str, url: str | None = None) -> Outcome:
        where = ["--url", url] if url else own_server()
        with contextlib.chdir(tmp_path):
            result = CliRunner().invoke(app, [command, *where, *arguments])
        assert result.exception is None or isinstance(result.exception, SystemExit), result
        return Outcome(result.exit_code, result.stdout, result.stderr)

    return invoke


class Command:
    """`python -m server …` as a process of its own, as from a shell."""

    def __init__(self, folder: Path, *arguments: str, **variables: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "server", *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        # SIGTERM, so that a command that hangs stops the server that it started
        self.limit = threading.Timer(60.0, self.process.terminate)
        self.limit.start()

    def wait_for(self, line: str) -> None:
        """Read standard error up to a line."""
        for found in present(self.process.stderr):
            if found.startswith(line):
                return
        raise AssertionError(f"ended without {line!r}")

    def interrupt(self) -> None:
        """Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def end(self) -> Outcome:
        """Wait for its end, which has a limit."""
        out, err = self.process.communicate(timeout=90)
        return Outcome(self.process.returncode, out, err)


@pytest.fixture
def start() -> Iterator[Callable[..., Command]]:
    """Starts commands; what is left of them is ended with the test."""
    started: list[Command] = []

    def begin(folder: Path, *arguments: str, **variables: str) -> Command:
        started.append(Command(folder, *arguments, **variables))
        return started[-1]

    yield begin
    for command in started:
        command.limit.cancel()
        if command.process.poll() is None:
            command.process.terminate()
        command.process.communicate(timeout=90)


def servers_in(folder: Path) -> list[str]:
    """The processes that still work in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "cwd").readlink() == folder:
                found.append((process / "cmdline").read_text().replace("\0", " "))
    return found


def wait_until_gone(folder: Path, seconds: float = 10.0) -> None:
    """Wait until no process works in a folder any more."""
    wait_until(lambda: not servers_in(folder), seconds)


DONE = {"id": "x", "status": "succeeded", "output": "the end", "logs": "", "metrics": {}}


def predict(text: str = "") -> str:
    return text


@pytest.fixture
def other(httpserver):
    """A server that is ready, and says what it takes."""
    httpserver.expect_request("/health-check").respond_with_json({"status": "READY", "setup": {}})
    httpserver.expect_request("/openapi.json").respond_with_json(openapi_schema(predict))
    return httpserver


def url_of(server) -> str:
    return server.url_for("/")


def answer_put(server, body: object, status: int = 200, headers: dict[str, str] | None = None):
    """Answer PUT, as a server that has no events of runs."""
    server.expect_request(re.compile(".*/events")).respond_with_data("", status=404)
    server.expect_request(re.compile("/predictions/.*"), method="PUT").respond_with_data(
        json.dumps(body), status=status, headers=headers, content_type="application/json"
    )


def expect_events(server, *events: tuple[str, object] | None) -> None:
    """Answer a run that was started by such a stream, cut at None; the run is unknown before."""
    started = []

    def answer(request: Request) -> Response:
        if request.method == "PUT":
            started.append(request.path)
            return Response('{"status": "starting"}', 202, content_type="application/json")
        if not started:
            return Response('{"error": "unknown"}', 404, content_type="application/json")
        after = int(request.headers.get("Last-Event-ID", 0))
        first = after + (events[after] is None)
        stream = ""
        for number, event in [*enumerate(events, 1)][first:]:
            if event is None:
                break
            stream += f"event: {event[0]}\nid: {number}\ndata: {json.dumps(event[1])}\n\n"
        return Response(stream, content_type="text/event-stream")

    server.expect_request(re.compile("/predictions.*")).respond_with_handler(answer)

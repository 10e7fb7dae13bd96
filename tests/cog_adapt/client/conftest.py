"""A real server whose predictor adapts, keeps adapters and trains; and a proxy that cuts."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cog_adapt import Client
from cog_adapt.server.command.local_server import LocalClient, local_server
from tests.cog_adapt.server.command.conftest import make_folder

PREDICTOR = """\
import asyncio

from cog import BaseModel, BaseRunner, Input, Path, concurrent

from cog_adapt import ModelRunner, Recipe, Request, RunnerSettings, answer
from tests.cog_adapt.models import Letters


class Output(BaseModel):
    predictions: list[list[float]]
    adapter: str | None
    read: list[str]


class Predictor(BaseRunner):
    def setup(self) -> None:
        self.runner = ModelRunner(Letters(), RunnerSettings.from_environment())

    @concurrent(max=8)
    async def run(
        self,
        text: str = Input(default="ab", max_length=100),
        examples: str | list[dict] = Input(default=""),
        adapter: str = Input(default=""),
        files: list[Path] = Input(default=[]),
        steps: int = Input(default=4, ge=1),
        pauses: int = Input(default=0, ge=0, le=100000),
        fails: bool = Input(default=False),
    ) -> Output:
        with open("runs", "a") as runs:
            runs.write(f"{text}\\n")
        for number in range(pauses):
            print(f"pause {number}", flush=True)
            await asyncio.sleep(0.01)
        if fails:
            raise ValueError("told to")
        recipe = Recipe("head", max_steps=steps)
        labels = () if examples or adapter else ("low", "high")
        request = Request([text], labels, examples, adapter=adapter, recipe=recipe)
        answered = await answer(self.runner, request, self.scope)
        found = [one.read_text() for one in files]
        return Output(predictions=answered.predictions, adapter=answered.adapter, read=found)
"""
TRAINING = """\
from cog import BaseModel, Input


class TrainingOutput(BaseModel):
    weights: str


def train(size: int = Input(ge=1)) -> TrainingOutput:
    print("training", size)
    return TrainingOutput(weights="w" * size)
"""
ROWS = [{"text": "aa", "label": "low"}, {"text": "yy", "label": "high"}]
OTHERS = [*ROWS, {"text": "bb", "label": "low"}]  # rows that no other test sends


@pytest.fixture(scope="package")
def folder(tmp_path_factory) -> Path:
    """The folder of the predictor."""
    return make_folder(tmp_path_factory.mktemp("letters"), PREDICTOR, TRAINING)


@pytest.fixture(scope="package")
def server(folder) -> Iterator[LocalClient]:
    """The server; `Client(server.url, server.key)` is a client of it."""
    variables = {"DEVICE": "cpu", "SELF_TEST": "off", "WEIGHTS_DIR": str(folder / "weights")}
    with contextlib.ExitStack() as stack:
        with contextlib.chdir(folder):
            local = stack.enter_context(local_server("predict", variables))
        local.wait_until_ready(120)
        yield local


@pytest.fixture(scope="package")
def runs(server, folder):
    """Return a function that counts the runs of the predictor with a text."""

    def count(text: str) -> int:
        return (folder / "runs").read_text().splitlines().count(text)

    return count


class Proxy:
    """A proxy on the loopback interface that cuts chosen connections in the middle of an answer.

    Attributes:
        url: of the proxy.
        cuts: for each of the next requests that contain the first bytes, after how many bytes of
            the answer its connection is cut.
        requests: the heads of all requests.
    """

    def __init__(self, url: str) -> None:
        host, _, port = url.rpartition("/")[2].partition(":")
        self._target = host, int(port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.cuts: list[tuple[bytes, int]] = []
        self.requests: list[bytes] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                here, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(here,), daemon=True).start()

    def _serve(self, here: socket.socket) -> None:
        with here, socket.create_connection(self._target) as there, contextlib.suppress(OSError):
            left: list[int] = []  # bytes of the answer before this connection is cut, if it is
            back = threading.Thread(target=_copy_back, args=(there, here, left), daemon=True)
            back.start()
            while data := here.recv(65536):
                self.requests.append(data)
                if self.cuts and self.cuts[0][0] in data:
                    left.append(self.cuts.pop(0)[1])
                there.sendall(data)
            there.shutdown(socket.SHUT_RDWR)
            back.join()


def _copy_back(there: socket.socket, here: socket.socket, left: list[int]) -> None:
    """Copy answers to the client, up to the cut."""
    with contextlib.suppress(OSError):
        while data := there.recv(65536):
            here.sendall(data[: left[0]] if left else data)
            if left and left[0] <= len(data):
                here.shutdown(socket.SHUT_RDWR)
                return
            left[:] = [left[0] - len(data)] if left else []


@pytest.fixture
def proxy(server) -> Iterator[Proxy]:
    """A proxy before the server."""
    made = Proxy(server.url)
    yield made
    made.close()


@pytest.fixture
def client(server) -> Iterator[Client]:
    """A client of the server."""
    with Client(server.url, server.key) as made:
        yield made

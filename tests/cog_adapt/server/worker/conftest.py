import contextlib
import multiprocessing
import socket
import textwrap
import time
from collections import deque
from typing import Any

import msgspec
import pytest

from cog_adapt.server.protocol import (
    Beat,
    Cancel,
    Finished,
    Frames,
    Log,
    Output,
    Ready,
    Run,
    SetupFailed,
    SetupLog,
    Stop,
    to_frame,
)
from cog_adapt.server.worker.config import WorkerConfig
from cog_adapt.server.worker.main import main

SECONDS = 20


class Front:
    """The front's end of a model process."""

    def __init__(self, config):
        self.socket, theirs = socket.socketpair()
        self.socket.settimeout(SECONDS)
        context = multiprocessing.get_context("spawn")
        self.process = context.Process(target=main, args=(theirs, config))
        self.process.start()
        theirs.close()
        self.frames = Frames.of_reports()
        self.waiting: Any = deque()
        self.beats: Any = []
        self.setup_logs = ""
        self.described = None

    def ask(self, request):
        self.socket.sendall(to_frame(request))

    def cancel(self, id="p"):
        self.ask(Cancel(id))

    def stop(self):
        self.ask(Stop())

    def close(self):
        self.socket.close()

    def hear(self):
        deadline = time.monotonic() + SECONDS
        while not self.waiting:
            assert time.monotonic() < deadline, "it sends beats alone"
            data = self.socket.recv(2**16)
            if not data:
                raise EOFError
            for report in self.frames.feed(data):
                (self.beats if isinstance(report, Beat) else self.waiting).append(report)
        return self.waiting.popleft()

    def hear_until(self, *kinds):
        heard: list[Any] = []
        while not heard or not isinstance(heard[-1], kinds):
            heard.append(self.hear())
        return heard

    def set_up(self):
        heard = self.hear_until(Ready, SetupFailed)
        self.setup_logs = "".join(each.data for each in heard if isinstance(each, SetupLog))
        return heard[-1]

    def start(self, id="p", context=None, **values):
        self.ask(Run(id, msgspec.json.encode(values), context or {}))

    def run(self, id="p", context=None, **values):
        self.start(id, context, **values)
        return Reports(self.hear_until(Finished))


class Reports:
    """What a model process reported of a prediction."""

    def __init__(self, reports, id=None):
        self.reports = [each for each in reports if id is None or getattr(each, "id", None) == id]
        self.finished = self.reports[-1]
        self.logs = "".join(each.data for each in self.reports if isinstance(each, Log))
        self.outputs = [
            msgspec.json.decode(each.chunk) for each in self.reports if isinstance(each, Output)
        ]

    @property
    def status(self):
        return self.finished.status

    @property
    def error(self):
        return self.finished.error

    @property
    def output(self):
        assert self.status == "succeeded", self.finished
        if self.finished.is_list:
            return self.outputs
        assert len(self.outputs) <= 1
        return self.outputs[0] if self.outputs else None


@pytest.fixture(scope="module")
def launch(tmp_path_factory):
    """Start a model process on a predictor's source; it is READY unless `ready=False`."""
    with contextlib.ExitStack() as stack:

        def start(source, *, ready=True, files=(), **config):
            folder = tmp_path_factory.mktemp("model")
            for name, content in {"predictor.py": source, **dict(files)}.items():
                (folder / name).write_text(textwrap.dedent(content))
            config.setdefault("reference", "predictor.py")
            with contextlib.chdir(folder):
                front = Front(WorkerConfig(**config))
            stack.callback(_end, front)
            if ready:
                answer = front.set_up()
                assert isinstance(answer, Ready), (answer, front.setup_logs)
            return front

        yield start


def _end(front):
    with contextlib.suppress(OSError):
        front.stop()
    front.close()
    front.process.join(SECONDS)
    if front.process.is_alive():
        front.process.kill()
        front.process.join()


def is_alive(process):
    """Whether a process runs; one that nobody waited for does not."""
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False

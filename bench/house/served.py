"""A running server of a tree, and plain requests to it."""

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.house.tree import Tree

_READY_SECONDS = 90.0
_STOP_SECONDS = 30.0
_FINAL = ("READY", "SETUP_FAILED", "DEFUNCT")
_PAUSE = 0.05


class HasEndedError(RuntimeError):
    """The server ended by itself.

    Attributes:
        code: its exit code.
        log: its output.
    """

    def __init__(self, code: int, log: str) -> None:
        super().__init__(f"it ended with {code}. Its log:\n{log[-3000:]}")
        self.code, self.log = code, log


@dataclass(frozen=True)
class Answer:
    """An answer, read whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401 - whatever a body holds
        """The body."""
        return json.loads(self.body)


@dataclass
class Served:
    """A running server."""

    port: int
    process: subprocess.Popen[bytes]
    log: Path
    headers: dict[str, str] = field(default_factory=dict)

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send one request; a body that is not bytes is sent as JSON."""
        sent = {**self.headers, **(headers or {})}
        content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        if content is not None:
            sent = {"content-type": "application/json", **sent}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        with contextlib.closing(connection):
            connection.request(method, path, content, sent)
            answer = connection.getresponse()
            names = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, names, answer.read())

    def run_to_end(self, path: str, body: object) -> Answer:
        """Send a synchronous POST."""
        return self.ask("POST", path, body)

    def health(self) -> str:
        """Return the present health."""
        with contextlib.suppress(OSError, http.client.HTTPException):
            return str(self.ask("GET", "/health-check").json["status"])
        return "no answer"

    def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until a condition is true.

        Raises:
            HasEndedError: the server has ended.
            TimeoutError: the condition was not true in time.
        """
        deadline = time.monotonic() + _READY_SECONDS
        while not is_so():
            if (code := self.process.poll()) is not None:
                raise HasEndedError(code, self.text())
            if time.monotonic() > deadline:
                raise TimeoutError(f"this did not come to be. The log:\n{self.text()[-3000:]}")
            time.sleep(_PAUSE)

    def text(self) -> str:
        """Return the output so far."""
        return self.log.read_text(errors="replace")

    def stop(self) -> int:
        """End the server. Return its exit code."""
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_STOP_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        return self.process.wait()


@contextlib.contextmanager
def served(
    tree: Tree,
    folder: Path,
    more: Mapping[str, str] | None = None,
    flags: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
) -> Iterator[Served]:
    """Run `python -m server` in a folder; yield it when its setup has ended."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    log = Path(tempfile.mkdtemp(prefix="house-")) / "log"
    fixed = {"PORT": str(port), "EGRESS_ALLOW": "127.0.0.0/8"}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "server", "--host", "127.0.0.1", *flags],
            cwd=folder,
            env=tree.environment({**fixed, **(more or {})}),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    server = Served(port, process, log, dict(headers or {}))
    try:
        server.until(lambda: server.health() in _FINAL)
        yield server
    finally:
        server.stop()
        shutil.rmtree(log.parent)

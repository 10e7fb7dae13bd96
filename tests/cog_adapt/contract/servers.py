"""A running server, coglet or the mirror, and one client of it."""

import contextlib
import http.client
import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from tests.cog_adapt.waiting import wait_for

ANSWER_SECONDS = 60.0
BUSY_ATTEMPTS = 100
CANCELS = 10


@dataclass(frozen=True)
class Event:
    """One server-sent event."""

    event: str
    data: Any
    id: str | None = None


@dataclass
class Server:
    """A running server and one client of it.

    Attributes:
        database: of servers that share one; None: a file of its own.
    """

    flavour: str
    folder: Path
    url: str
    log: Path
    process: subprocess.Popen[bytes]
    client: httpx2.Client
    database: str | None = None
    ids: Iterator[int] = field(default_factory=lambda: iter(range(10**9)))

    @property
    def is_coglet(self) -> bool:
        """Whether this is the original."""
        return self.flavour == "coglet"

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.url.rsplit(":", 1)[1])

    @property
    def members(self) -> "Sequence[Server]":
        """The servers that answer at its URL: itself."""
        return [self]

    def kept(self) -> list[bytes]:
        """The files of its data folders."""
        return [path.read_bytes() for path in self.folder.rglob(".data/**/*") if path.is_file()]

    def new_id(self) -> str:
        """An id that no test has used before."""
        return f"test-{os.getpid()}-{time.time_ns()}-{next(self.ids)}"

    def request(self, method: str, path: str, body: object = None, **more: Any) -> httpx2.Response:
        """One request, exactly once."""
        content: dict[str, Any] = {} if body is None else {"json": body}
        return self.client.request(method, self.url + path, **content, **more)

    def get(self, path: str, **more: Any) -> httpx2.Response:
        """One GET."""
        return self.request("GET", path, **more)

    def post(self, path: str, body: object = None, **more: Any) -> httpx2.Response:
        """POST; coglet frees its slot after the answer, so it is asked again while it says 409."""
        return self._when_free("POST", path, body, **more)

    def put(self, path: str, body: object = None, **more: Any) -> httpx2.Response:
        """PUT, with the same patience as post()."""
        return self._when_free("PUT", path, body, **more)

    def _when_free(self, method: str, path: str, body: object, **more: Any) -> httpx2.Response:
        for _ in range(BUSY_ATTEMPTS if self.is_coglet else 1):
            response = self.request(method, path, body, **more)
            if response.status_code != 409:
                break
            time.sleep(0.02)
        return response

    def predict(self, /, **inputs: object) -> dict[str, Any]:
        """The body of a synchronous prediction."""
        response = self.post("/predictions", {"input": inputs})
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer

    def output(self, /, **inputs: object) -> Any:
        """The output of a synchronous prediction that has to succeed."""
        answer = self.predict(**inputs)
        assert answer["status"] == "succeeded", answer
        return answer["output"]

    def start(self, /, id: str | None = None, **inputs: object) -> str:
        """Start an asynchronous prediction; its id."""
        body = {"id": id or self.new_id(), "input": inputs}
        response = self.post("/predictions", body, headers={"Prefer": "respond-async"})
        assert response.status_code == 202, response.text
        return str(response.json()["id"])

    def cancel(self, id: str, kind: str = "predictions") -> httpx2.Response:
        """Cancel a prediction or training; coglet is told again, since it may lose the first."""
        response = self.request("POST", f"/{kind}/{id}/cancel")
        for _ in range(CANCELS if self.is_coglet else 0):
            time.sleep(0.1)
            if self.request("POST", f"/{kind}/{id}/cancel").status_code == 404:
                break
        return response

    @contextlib.contextmanager
    def open_stream(
        self, path: str, body: object, *, method: str = "POST", **headers: str
    ) -> Iterator[httpx2.Response]:
        """An answer whose body is still to come."""
        for _ in range(BUSY_ATTEMPTS):
            accept = {"Accept": "text/event-stream", **headers}
            with self.client.stream(method, self.url + path, json=body, headers=accept) as response:
                if response.status_code != 409 or not self.is_coglet:
                    yield response
                    return
            time.sleep(0.02)
        raise AssertionError("never free")

    def stream(self, path: str, body: object, *, method: str = "POST") -> list[Event]:
        """All events of a stream."""
        with self.open_stream(path, body, method=method) as response:
            assert response.status_code == 200, response.read()
            return list(events(response))

    def health(self) -> dict[str, Any]:
        """The answer of /health-check."""
        answer: dict[str, Any] = self.get("/health-check").json()
        return answer

    @contextlib.contextmanager
    def beginning(self, runs: int = 1) -> Iterator[None]:
        """Wait, after the block, until the model has begun so many more pieces of work."""
        before = self._begun()
        yield
        wait_for(lambda: self._begun() >= before + runs or None)

    def _begun(self) -> int:
        file = self.folder / "begun"
        return file.stat().st_size if file.exists() else 0

    def until_idle(self) -> None:
        """Wait until health is READY."""
        wait_for(lambda: self.health()["status"] == "READY" or None)

    def raw(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] = {}
    ) -> tuple[int, dict[str, str], bytes]:
        """A request with these headers and no others but Host and Content-Length."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_SECONDS)
        with contextlib.closing(connection):
            connection.request(method, path, body, dict(headers))
            response = connection.getresponse()
            answer = {name.lower(): value for name, value in response.getheaders()}
            return response.status, answer, response.read()

    def text(self) -> str:
        """What the server has written to its own log."""
        return self.log.read_text(errors="replace")

    def workers(self) -> list[int]:
        """The processes that run the model."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        commands = {int(child): _command(child) for child in children.read_text().split()}
        return [
            child
            for child, command in commands.items()
            if command is not None and b"resource_tracker" not in command
        ]


def _command(process: str) -> bytes | None:
    """The command of a process; None if it has ended meanwhile."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return None


def events(response: httpx2.Response) -> Iterator[Event]:
    """The server-sent events of an answer, as they come."""
    name, data, number = "message", [], None
    for line in response.iter_lines():
        key, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if key == "event":
            name = value
        elif key == "id":
            number = value
        elif key == "data":
            data.append(value)
        elif not line and data:
            yield Event(name, json.loads("\n".join(data)), number)
            name, data, number = "message", [], None

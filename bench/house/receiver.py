"""Receives webhooks on loopback."""

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_FINAL = ("succeeded", "failed", "canceled")


@dataclass(frozen=True)
class Came:
    """One webhook."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401 - whatever a body holds
        """The body."""
        return json.loads(self.body)


@dataclass
class Receiver:
    """The webhooks so far.

    Attributes:
        url: the receiver's root.
        came: the webhooks in order of arrival.
    """

    url: str = ""
    came: list[Came] = field(default_factory=list)

    def at(self, path: str) -> list[Came]:
        """Return the webhooks to one path."""
        return [each for each in self.came if each.path == path]

    def is_complete(self, path: str) -> bool:
        """Return whether the last webhook has come to a path."""
        return any(each.json["status"] in _FINAL for each in self.at(path))


@contextlib.contextmanager
def receiver() -> Iterator[Receiver]:
    """Run a receiver that answers 200 to every POST, and 410 below `/gone`."""
    taken = Receiver()

    class Handler(BaseHTTPRequestHandler):
        """Receives one webhook."""

        def do_POST(self) -> None:
            """Note the webhook."""
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            taken.came.append(Came(self.path, headers, body))
            self.send_response(410 if self.path.startswith("/gone") else 200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    taken.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield taken
    server.shutdown()
    server.server_close()

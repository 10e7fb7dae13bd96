"""A server on loopback that webhooks, uploads and downloads reach."""

import json
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.cog_adapt.waiting import wait_for, wait_until_quiet


@dataclass(frozen=True)
class Received:
    """A request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    at: float

    @property
    def json(self) -> Any:
        """Its body."""
        return json.loads(self.body)


@dataclass(frozen=True)
class Answer:
    """What to say to a request."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0


class Receiver:
    """Records what comes and answers what it was told to, 200 otherwise."""

    def __init__(self, port: int = 0) -> None:
        self.requests: list[Received] = []
        self._answers: dict[str, list[Answer]] = {}
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                receiver._serve(self)

            do_POST = do_PUT = do_GET

            def log_message(self, *arguments: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> "Receiver":
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, *answers: Answer) -> str:
        """Give these answers at a path, the last one again and again; the URL of the path."""
        self._answers[path] = list(answers)
        return self.url + path

    def forget(self) -> None:
        """Forget what was received and what was to be answered."""
        self.requests.clear()
        self._answers.clear()

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in handler.headers.items()}
        path = handler.path
        self.requests.append(Received(handler.command, path, headers, body, time.monotonic()))
        answers = self._answers.get(path.partition("?")[0], [Answer()])
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        time.sleep(answer.delay)
        handler.send_response(answer.status)
        for name, value in answer.headers.items():
            handler.send_header(name, value)
        handler.send_header("content-length", str(len(answer.body)))
        handler.end_headers()
        handler.wfile.write(answer.body)

    def at(self, path: str) -> list[Received]:
        """What has come to a path so far."""
        return [request for request in self.requests if request.path == path]

    def until_completed(self, path: str = "/hook") -> list[dict[str, Any]]:
        """The payloads at a path as soon as one of them is final and no more is on its way."""

        def look() -> Sequence[Received] | None:
            came = self.at(path)
            final = any(
                request.json["status"] not in ("starting", "processing") for request in came
            )
            return came if final else None

        wait_for(look)
        # coglet sends at once what it sends; the last ones may overtake each other.
        wait_until_quiet(lambda: len(self.at(path)), 0.1)
        return [request.json for request in self.at(path)]

    def final(self, path: str = "/hook") -> dict[str, Any]:
        """The payload of the end, whenever it came."""
        (end,) = (each for each in self.until_completed(path) if each["status"] != "processing")
        return end

"""Receives webhooks, and answers each with 200."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class Receiver:
    """A server of webhooks on loopback.

    Attributes:
        ends: for each id, the webhook-id and status of each final webhook.
    """

    def __init__(self) -> None:
        self.ends: dict[str, list[tuple[str, str]]] = {}
        self.count = 0
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["content-length"])
                body = self.rfile.read(length)
                if len(body) == length:  # a server that is killed may leave half a webhook
                    receiver.take(self.headers["webhook-id"], json.loads(body))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._lock = threading.Lock()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def take(self, webhook_id: str, body: dict[str, Any]) -> None:
        """Count a webhook."""
        with self._lock:
            self.count += 1
            if body["status"] in ("succeeded", "failed", "canceled"):
                self.ends.setdefault(body["id"], []).append((webhook_id, body["status"]))

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

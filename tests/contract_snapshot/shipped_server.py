"""A server of the shipped doors, with one key for each scope, asked by each of them."""

import contextlib
import hashlib
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from bench.house.tree_server import FINAL, Client, Server
from tests.cog_adapt.waiting import wait_until

ROOT = Path(__file__).parents[2]
SCOPES = ("predict", "train", "admin")
CALLERS = ("no key", *SCOPES)
_LIMITS = {
    "RATE_LIMIT": "100000/minute",
    "CORS_ORIGINS": "https://example.com",
    "MAX_BODY_BYTES": "200000",
    "MAX_QUEUE": "1",
    "SELF_TEST": "off",  # its own tests prove it, in minutes
}


@dataclass(frozen=True)
class Asked:
    """A request and its answer.

    Attributes:
        route: with a placeholder for each id.
    """

    method: str
    route: str
    answer: httpx2.Response


@dataclass
class ShippedServer:
    """A running server, and all that it was asked.

    Attributes:
        folder: `.data` and `weights` lie in it.
    """

    client: Client
    folder: Path
    asked: list[Asked] = field(default_factory=list)

    def ask(
        self,
        method: str,
        route: str,
        ids: Mapping[str, str] | None = None,
        *,
        caller: str = "admin",
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        """Send one request by one of CALLERS, and note its answer; `ids` fill a route's places."""
        sent = dict(headers or {})
        if caller in SCOPES:
            sent |= {"authorization": f"Bearer {_key(caller)}"}
        more = {} if body is None else {"content" if isinstance(body, bytes) else "json": body}
        path = route.format(**(ids or {}))
        answer = self.client.http.request(method, path, headers=sent, **more)
        self.asked.append(Asked(method, route.partition("?")[0], answer))
        return answer

    def wait_for_end(self, path: str) -> None:
        """Wait for the end of a run; what is asked meanwhile is no fact, it depends on the time."""
        key = {"authorization": f"Bearer {_key('admin')}"}
        http = self.client.http
        wait_until(lambda: http.get(path, headers=key).json()["status"] in FINAL, 60.0)


@contextlib.contextmanager
def shipped_server() -> Iterator[ShippedServer]:
    """Start the server, wait until it is ready, and end it afterwards."""
    with tempfile.TemporaryDirectory(prefix="contract-") as name:
        folder = Path(name)
        (folder / "keys").write_text("".join(map(_line, SCOPES)))
        env = {
            **_LIMITS,
            "API_KEYS_FILE": str(folder / "keys"),
            "COG_TRAIN_TYPE_STUB": "train.py:Trainer",
        }
        server = Server(ROOT, ROOT, folder, "predict.py:Predictor", _key("admin"), env)
        with server.running() as client:
            client.http.headers.pop("authorization")
            yield ShippedServer(client, folder)


def _key(scope: str) -> str:
    return f"ca_{scope:x<43}"


def _line(scope: str) -> str:
    digest = hashlib.sha256(_key(scope).encode()).hexdigest()
    return f"{scope} {scope} {digest} owner=somebody\n"

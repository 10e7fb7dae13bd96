"""A folder with one database, the servers that work on it, and the books of what they did."""

import contextlib
import os
import shutil
import signal
import sqlite3
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.cog_adapt.contract.receivers import Received, Receiver
from tests.cog_adapt.contract.servers import Server
from tests.cog_adapt.contract.serving import serving
from tests.cog_adapt.waiting import wait_for, wait_until

FINAL = ("succeeded", "failed", "canceled")
SECONDS = 60.0
IS_FULL = os.environ.get("FAULTS") == "full"
full = pytest.mark.skipif(not IS_FULL, reason="in the long form only: FAULTS=full")


@dataclass
class Cluster:
    """Where servers come and go, and what was promised stays."""

    folder: Path
    stack: contextlib.ExitStack
    names: list[str] = field(default_factory=list)

    def start(self, predict: str = "recording_predictor.py:Predictor", **options: Any) -> Server:
        """A server on the database of this house."""
        shutil.copy(Path(__file__).parent / "recording_predictor.py", self.folder)
        more: dict[str, str] = options.pop("env", {})
        env = {"LOG_FORMAT": "console"} | more
        return self.stack.enter_context(
            serving("mirror", self.folder, predict=predict, env=env, **options)
        )

    def renew(self, server: Server) -> Server:
        """Begin the next test of a server: it serves, forgives its crashes, and no book has a line.

        Each test has ids of its own: what earlier ones ran is remembered.
        """
        self.names.append(f"renewed-{len(self.names)}")
        self.open_gate()
        submit(server, self.names[-1])
        assert statuses(server, self.names[-1]) == {self.names[-1]: "succeeded"}
        wait_until(lambda: server.health()["status"] == "READY", SECONDS, server.text)
        for each in self.folder.iterdir():
            if each.is_file() and not each.suffix:
                each.unlink()
        return server

    def kept(self, *names: str) -> dict[str, str]:
        """How these have ended, as the database of a server says that has ended too."""
        with contextlib.closing(sqlite3.connect(self.folder / ".data" / "records.db")) as database:
            found = dict(database.execute("SELECT id, status FROM records"))
        return {name: found[name] for name in names}

    def book(self, name: str) -> list[str]:
        """The lines of a book that the predictor keeps."""
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    def open_gate(self) -> None:
        """Let whatever waits in the model go on."""
        (self.folder / "open").touch()

    @contextlib.contextmanager
    def clients(self, count: int) -> Iterator[ThreadPoolExecutor]:
        """Threads that ask; whatever happens, none waits at the gate for ever."""
        with ThreadPoolExecutor(count) as pool:
            try:
                yield pool
            finally:
                self.open_gate()

    def until_begun(self, *names: str) -> None:
        """Wait until the model has begun with these."""
        wait_for(lambda: set(names) <= set(self.book("begun")) or None, SECONDS)

    def assert_run(self, *names: str) -> None:
        """The model has begun with these, and with nothing else, and with none twice."""
        assert Counter(self.book("begun")) == Counter(names)


def crashes_of(server: Server) -> int:
    """Return how many deaths in a row the server counts for its model process."""
    return int(server.health().get("crashes", 0))


def submit(server: Server, name: str, *, webhook: str | None = None, **more: Any) -> None:
    """An accepted asynchronous prediction; `more` goes into its input, `envelope` beside it."""
    envelope = more.pop("envelope", {})
    headers = {"Prefer": "respond-async", **more.pop("headers", {})}
    body = {"id": name, "input": {"name": name, **more}, **envelope}
    if webhook is not None:
        body |= {"webhook": f"{webhook}/{name}", "webhook_events_filter": ["completed"]}
    answer = server.request("POST", "/predictions", body, headers=headers)
    assert answer.status_code == 202, answer.text


def record(server: Server, name: str) -> dict[str, Any]:
    """What the server knows about a prediction."""
    answer = server.get(f"/predictions/{name}")
    assert answer.status_code == 200, f"{name} is lost: {answer.text}"
    return dict(answer.json())


def until_final(server: Server, *names: str) -> dict[str, dict[str, Any]]:
    """The records of these as soon as all have ended."""

    def look() -> dict[str, dict[str, Any]] | None:
        found = {name: record(server, name) for name in names}
        return found if all(each["status"] in FINAL for each in found.values()) else None

    return wait_for(look, SECONDS)


def statuses(server: Server, *names: str) -> dict[str, str]:
    """How these have ended."""
    return {name: each["status"] for name, each in until_final(server, *names).items()}


def is_whole(request: Received) -> bool:
    """Whether all of it came: a server that is killed may leave half a webhook."""
    return len(request.body) == int(request.headers["content-length"])


def last_words(receiver: Receiver, name: str, path: str = "") -> list[tuple[str, str]]:
    """The webhook-id and status of each terminal webhook that came for a prediction."""
    return [
        (request.headers["webhook-id"], request.json["status"])
        for request in list(receiver.at(f"{path}/{name}"))
        if is_whole(request) and request.json["status"] in FINAL
    ]


def assert_told_once(receiver: Receiver, wanted: dict[str, str]) -> None:
    """Each prediction's end was told with one webhook-id and one status."""
    wait_for(lambda: all(last_words(receiver, name) for name in wanted) or None, SECONDS)
    told = {name: set(last_words(receiver, name)) for name in wanted}
    assert {name: [status for _, status in words] for name, words in told.items()} == {
        name: [status] for name, status in wanted.items()
    }


def kill(pid: int) -> None:
    """End a process at once."""
    os.kill(pid, signal.SIGKILL)


def is_alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def until_gone(*pids: int, seconds: float = 20.0) -> None:
    """Wait until no such process is left."""
    wait_for(lambda: not any(map(is_alive, pids)) or None, seconds)

"""A run is followed over the end of its server, which another one on the same port takes over."""

import contextlib
import os
import signal
import uuid
from pathlib import Path

import httpx2
import pytest

from cog_adapt import Client
from cog_adapt.client import Unreachable
from tests.cog_adapt.contract.servers import Server
from tests.cog_adapt.contract.serving import free_port, serving, wait_until
from tests.cog_adapt.server.command.conftest import make_folder

PREDICTOR = """\
import time

from cog import BaseRunner


class Predictor(BaseRunner):
    def run(self, name: str, pauses: int = 60) -> str:
        with open("runs", "a") as runs:
            runs.write(f"{name}\\n")
        for number in range(pauses):
            print(f"pause {number}", flush=True)
            time.sleep(0.02)
        return name
"""
PAUSES = "".join(f"pause {number}\n" for number in range(60))


class Killed:
    """A server that is killed, and started again on its port.

    Attributes:
        folder: of its predictor.
        url: of each that is started.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self._port = folder, free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self._stack = contextlib.ExitStack()
        self._running: Server | None = None

    def start(self, until: str = "READY") -> None:
        """Start one, unless one runs."""
        if self._running is None:
            reference, port = "predict.py:Predictor", self._port
            server = serving("mirror", self.folder, predict=reference, port=port, until=until)
            self._running = self._stack.enter_context(server)
        wait_until(self._running, until)

    def kill(self) -> None:
        """Kill the one that runs."""
        if self._running is not None:
            os.kill(self._running.process.pid, signal.SIGKILL)
        self._running = None
        self._stack.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    killed = Killed(make_folder(tmp_path_factory.mktemp("killed") / "slow", PREDICTOR))
    yield killed
    killed.kill()


@pytest.fixture
def client(server):
    server.start()
    with Client(server.url) as made:
        yield made


@pytest.mark.parametrize("has_begun", [True, False])
def test_events_go_on_when_the_server_was_killed_and_started_again(server, client, has_begun):
    """A run that had begun runs again, with `retries`; one that waited behind it waits on."""
    name = uuid.uuid4().hex
    if not has_begun:
        client.start({"name": "first", "pauses": 500})
    seen = []
    for event in client.events({"name": name}, run_id=name, retries=1):
        seen.append(event)
        if len(seen) == (10 if has_begun else 1):
            server.kill()
            server.start(until="up")
    assert (seen[-1].name, seen[-1].data["status"]) == ("completed", "succeeded")
    (begun, *again) = (at for at, event in enumerate(seen) if event.name == "start")
    assert len(again) == has_begun, "a run that runs again starts again"
    last = seen[(again or [begun])[0] :]
    assert [event.number for event in last] == [*range(last[0].number, last[-1].number + 1)]
    assert "".join(event.log or "" for event in last) == PAUSES
    assert (server.folder / "runs").read_text().splitlines().count(name) == 1 + has_begun


def test_a_server_that_does_not_come_back_is_given_up_at_the_deadline(server, client):
    events = client.events({"name": "a", "pauses": 5000}, deadline=0.5)
    assert next(events).number == 1
    server.kill()
    with pytest.raises(Unreachable) as caught:
        list(events)
    assert isinstance(caught.value.__cause__, httpx2.TransportError)

"""A run is followed over the end of its server, which another one on the same port takes over."""

import contextlib
import os
import signal
import uuid

import httpx2
import pytest

from cog_adapt import Client
from cog_adapt.client import Unreachable
from tests.cog_adapt.contract.serving import free_port, serving
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


@pytest.fixture
def folder(tmp_path):
    return make_folder(tmp_path / "slow", PREDICTOR)


def served(folder, port, until="READY"):
    return serving("mirror", folder, predict="predict.py:Predictor", port=port, until=until)


@pytest.mark.parametrize("has_begun", [True, False])
def test_events_go_on_when_the_server_was_killed_and_started_again(folder, has_begun):
    """A run that had begun runs again, with `retries`; one that waited behind it waits on."""
    port, name = free_port(), uuid.uuid4().hex
    with contextlib.ExitStack() as stack, contextlib.ExitStack() as first:
        server = first.enter_context(served(folder, port))
        client = stack.enter_context(Client(server.url))
        if not has_begun:
            client.start({"name": "first", "pauses": 500})
        seen = []
        for event in client.events({"name": name}, run_id=name, retries=1):
            seen.append(event)
            if len(seen) == (10 if has_begun else 1):
                os.kill(server.process.pid, signal.SIGKILL)
                first.close()
                stack.enter_context(served(folder, port, until="up"))
    assert (seen[-1].name, seen[-1].data["status"]) == ("completed", "succeeded")
    (begun, *again) = (at for at, event in enumerate(seen) if event.name == "start")
    assert len(again) == has_begun, "a run that runs again starts again"
    last = seen[(again or [begun])[0] :]
    assert [event.number for event in last] == [*range(last[0].number, last[-1].number + 1)]
    assert "".join(event.log or "" for event in last) == PAUSES
    assert (folder / "runs").read_text().splitlines().count(name) == 1 + has_begun


def test_a_server_that_does_not_come_back_is_given_up_at_the_deadline(folder):
    port = free_port()
    with served(folder, port) as server, Client(server.url) as client:
        events = client.events({"name": "a", "pauses": 5000}, deadline=0.5)
        assert next(events).number == 1
        os.kill(server.process.pid, signal.SIGKILL)
        with pytest.raises(Unreachable) as caught:
            list(events)
    assert isinstance(caught.value.__cause__, httpx2.TransportError)

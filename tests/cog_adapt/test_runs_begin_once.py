"""A run begins once, or as often as its `retries` say, whatever is away: database or server."""

import contextlib
import http.client
import os
import signal
import threading
from functools import partial

import pytest

from tests.cog_adapt.sharing_servers import ASYNC, ask, shared_database
from tests.cog_adapt.waiting import assert_stays, wait_until


@pytest.fixture
def shared(tmp_path):
    with shared_database(tmp_path) as shared:
        yield shared


def start(server, name, seconds):
    body = {"id": name, "input": {"text": name, "seconds": seconds}}
    assert ask(server, "POST", "/predictions", body, **ASYNC)[0] == 202


def status(server, name):
    return ask(server, "GET", f"/predictions/{name}")[1]["status"]


def test_what_waits_while_the_database_is_away_begins_once(shared):
    with shared.servers(2, COG_MAX_CONCURRENCY="1") as (busy, other):
        start(busy, "block", 60.0)
        wait_until(partial(shared.runs, "block"))
        start(other, "other", 60.0)
        wait_until(partial(shared.runs, "other"))
        start(busy, "waits", 5.0)
        shared.database.stop()
        assert ask(busy, "POST", "/predictions/block/cancel")[0] == 200
        assert_stays(lambda: shared.runs("waits") == 0, 1.0)
        shared.database.start()
        wait_until(partial(shared.runs, "waits"))
        # a server that takes over what seems to wait would run it again
        os.kill(busy.process.pid, signal.SIGKILL)
        assert ask(other, "POST", "/predictions/other/cancel")[0] == 200
        wait_until(lambda: status(other, "waits") == "failed", 60)
        assert shared.runs("waits") == 1


def test_what_a_client_waits_for_under_its_own_id_runs_again_with_retries(shared):
    with shared.servers(2) as (first, second):
        body = {"input": {"text": "again", "seconds": 2.0}, "retries": 1}

        def wait():
            with contextlib.suppress(OSError, http.client.HTTPException):
                ask(first, "PUT", "/predictions/again", body)

        client = threading.Thread(target=wait)
        client.start()
        wait_until(partial(shared.runs, "again"))
        os.kill(first.process.pid, signal.SIGKILL)
        client.join()
        assert ask(second, "PUT", "/predictions/again", body)[0] == 202
        wait_until(lambda: status(second, "again") == "succeeded", 60)
        assert shared.runs("again") == 2

"""A run begins once, or as often as its `retries` say, and has one end, whatever is away."""

import contextlib
import http.client
import os
import signal
import threading
from functools import partial

import pytest

from tests.cog_adapt.contract.servers import events
from tests.cog_adapt.sharing_servers import ADA, ASYNC, EVE, ask, shared_database
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


def test_a_server_that_stood_still_gives_up_what_another_has_taken(shared):
    with shared.servers(2, COG_MAX_CONCURRENCY="1") as (still, other):
        body = {"id": "taken", "input": {"text": "taken", "seconds": 60.0}, "retries": 1}
        assert ask(still, "POST", "/predictions", body, **ASYNC)[0] == 202
        wait_until(partial(shared.runs, "taken"))
        answers = []

        def wait():
            body = {"input": {"text": "waits", "seconds": 60.0}}
            answers.append(ask(still, "PUT", "/predictions/waits", body))

        client = threading.Thread(target=wait)
        client.start()
        wait_until(lambda: shared.sql("SELECT id FROM records WHERE id = 'waits'"))
        path = f"{still.url}/predictions/taken/events"
        with still.client.stream("GET", path, headers=ADA) as found:
            processes = [still.process.pid, *still.workers()]
            for each in processes:
                os.kill(each, signal.SIGSTOP)
            wait_until(lambda: shared.runs("taken") == 2, 60)  # its lease has ended
            for each in processes:
                os.kill(each, signal.SIGCONT)
            client.join()
            assert ask(other, "POST", "/predictions/taken/cancel")[0] == 200
            *_, last = events(found)
        assert (last.event, last.data["status"]) == ("completed", "canceled")
        error = "The server ended before it ran, and cannot be repeated."
        assert [(status, body["error"]) for status, body in answers] == [(200, error)]
        wait_until(lambda: "cog_predictions_running 0.0" in still.get("/metrics", headers=EVE).text)
        assert (shared.runs("taken"), shared.runs("waits")) == (2, 0)

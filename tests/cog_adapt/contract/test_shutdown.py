"""Section 11: how a server ends."""

import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from tests.cog_adapt.contract.differences import expect, follows_cog
from tests.cog_adapt.contract.servers import events
from tests.cog_adapt.waiting import assert_stays, wait_for, wait_until

ASYNC = {"Prefer": "respond-async"}


def end(server, how):
    if how == "/shutdown":
        response = server.request("POST", "/shutdown")
        assert (response.status_code, response.text) == (200, "{}")
        assert response.headers["content-type"] == "application/json"
    else:
        server.process.send_signal(how)


def refuses_connections(server):
    try:
        httpx2.get(f"{server.url}/", trust_env=False)
    except httpx2.ConnectError:
        return True
    except (httpx2.ReadError, httpx2.RemoteProtocolError):
        return False  # it was in the line of those that wait when the line was closed
    return False


@pytest.mark.parametrize(
    ("how", "code"), [(signal.SIGTERM, 0), ("/shutdown", 0), (signal.SIGINT, -signal.SIGINT)]
)
def test_an_open_request_is_answered(launch, how, code):
    server = launch("actions.py:Predictor")
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(server.predict, action="sleep", seconds=1.2)
        wait_for(lambda: server.health()["status"] == "BUSY" or None)
        end(server, how)
        wait_until(lambda: refuses_connections(server))
        assert answer.result(20)["status"] == "succeeded"
    ended = server.process.wait(20)
    assert ended == code or (how == signal.SIGINT and ended in (0, 130))


def test_an_open_stream_is_sent_to_its_end(launch):
    server = launch("streaming.py:Predictor")
    with server.open_stream("/predictions", {"input": {"words": "a b", "seconds": 0.6}}) as stream:
        found = events(stream)
        next(found)
        end(server, signal.SIGTERM)
        assert list(found)[-1].data["output"] == ["a", "b"]
    assert server.process.wait(20) == 0


def test_an_idle_server_ends_at_once_and_its_model_process_too(launch):
    server = launch("functions.py:shout")
    workers = server.workers()
    end(server, signal.SIGTERM)
    assert server.process.wait(10) == 0
    wait_for(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers) or None)


def test_a_server_in_setup_ends_at_once(launch):
    server = launch("setups.py:Slow", until="STARTING")
    began = time.monotonic()
    end(server, signal.SIGTERM)
    assert server.process.wait(10) == 0
    assert time.monotonic() - began < 3


def test_await_explicit_shutdown(launch):
    server = launch("functions.py:shout", flags=("--await-explicit-shutdown", "true"))
    end(server, signal.SIGTERM)
    assert_stays(lambda: server.process.poll() is None, 0.6)
    assert server.output() == "T"
    end(server, "/shutdown")
    assert server.process.wait(10) == 0


def test_who_comes_through_a_proxy_does_not_end_it(launch):
    server = launch("functions.py:shout")
    response = server.request("POST", "/shutdown", headers={"X-Forwarded-For": "203.0.113.5"})
    refused = expect(server, coglet=200, mirror=403, because="local-shutdown")
    assert response.status_code == refused
    if refused == 403:
        assert "API_KEYS_FILE" in response.json()["error"]
        assert server.output(text="still here") == "STILL HERE"
        end(server, "/shutdown")
    assert server.process.wait(10) == 0


def test_an_empty_await_explicit_shutdown_is_false(launch):
    server = launch("functions.py:shout", flags=("--await-explicit-shutdown", ""))
    end(server, signal.SIGTERM)
    assert server.process.wait(10) == 0


def test_asynchronous_work_is_finished_and_told(launch, receiver):
    server = launch("actions.py:Predictor")
    body = {"input": {"action": "sleep", "seconds": 1.0}, "webhook": f"{receiver.url}/hook"}
    server.post("/predictions", body, headers=ASYNC)
    wait_for(lambda: receiver.requests or None)
    end(server, signal.SIGTERM)
    assert server.process.wait(20) == 0
    if not follows_cog(server, because="drain-async"):
        assert receiver.requests[-1].json["status"] == "succeeded"

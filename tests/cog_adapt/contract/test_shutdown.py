"""Section 11: how a server ends."""

import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from tests.cog_adapt.contract.differences import expect, follows_cog
from tests.cog_adapt.contract.flavours import STRICT_OR_NOT
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


def end_with_an_open_request(server, how):
    """End it while it works: it takes no more, and answers; its exit code."""
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(server.predict, action="sleep", seconds=1.2)
        wait_for(lambda: server.health()["status"] == "BUSY" or None)
        end(server, how)
        wait_until(lambda: refuses_connections(server))
        assert answer.result(20)["status"] == "succeeded"
    return server.process.wait(20)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
@STRICT_OR_NOT
def test_an_open_request_is_answered(launch, how):
    ended = end_with_an_open_request(launch("actions.py:Predictor"), how)
    assert ended in ({0} if how == signal.SIGTERM else {-signal.SIGINT, 0, 130})


@STRICT_OR_NOT
def test_await_explicit_shutdown(launch):
    server = launch("actions.py:Predictor", flags=("--await-explicit-shutdown", "true"))
    end(server, signal.SIGTERM)
    assert_stays(lambda: server.process.poll() is None, 0.6)
    assert server.output() == "hello"
    assert end_with_an_open_request(server, "/shutdown") == 0


@STRICT_OR_NOT
def test_an_open_stream_and_asynchronous_work_are_finished(launch, receiver):
    server = launch("async_streaming.py:Predictor", env={"COG_MAX_CONCURRENCY": "2"})
    body = {"input": {"words": "a b", "seconds": 0.8}}
    hook = {"webhook": f"{receiver.url}/hook"}
    server.post("/predictions", body | hook, headers=ASYNC)
    with server.open_stream("/predictions", body) as stream:
        found = events(stream)
        next(found)
        wait_for(lambda: receiver.requests or None)
        end(server, signal.SIGTERM)
        assert list(found)[-1].data["output"] == ["a", "b"]
    assert server.process.wait(20) == 0
    if not follows_cog(server, because="drain-async"):
        assert receiver.requests[-1].json["status"] == "succeeded"


@STRICT_OR_NOT
def test_an_idle_server_ends_at_once_and_its_model_process_too(launch):
    """An empty flag is false: it waits for no explicit shutdown."""
    server = launch("functions.py:shout", flags=("--await-explicit-shutdown", ""))
    workers = server.workers()
    end(server, signal.SIGTERM)
    assert server.process.wait(10) == 0
    wait_for(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers) or None)


def test_a_server_in_setup_ends_at_once(starting):
    began = time.monotonic()
    end(starting, signal.SIGTERM)
    assert starting.process.wait(10) == 0
    assert time.monotonic() - began < 3


def test_who_comes_through_a_proxy_does_not_end_it(quick):
    response = quick.request("POST", "/shutdown", headers={"X-Forwarded-For": "203.0.113.5"})
    refused = expect(quick, coglet=200, mirror=403, because="local-shutdown")
    assert response.status_code == refused
    if refused == 403:
        assert "API_KEYS_FILE" in response.json()["error"]
        assert quick.output(text="still here") == "still here"
        end(quick, "/shutdown")
    assert quick.process.wait(10) == 0

"""Slow and broken clients, and bytes without sense: they harm themselves and nobody else."""

import contextlib
import random
import socket
import time
from collections import Counter

import httpx2
import pytest

from tests.cog_adapt.faults.cluster import FINAL, IS_FULL, record, statuses, submit
from tests.cog_adapt.waiting import wait_for

SECONDS = 60.0 if IS_FULL else 4.0
GOOD = b'{"input": {"name": "ok"}}'
METHODS = ("GET", "POST", "PUT", "HEAD", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW")
PATHS = (
    "/", "/health-check", "/healthz", "/readyz", "/openapi.json", "/docs", "/selftest", "/metrics",
    "/predictions", "/predictions/x", "/predictions/x/cancel", "/predictions/x/events",
    "/predictions/x/deliveries", "/predictions/x/deliveries/y/redeliver", "/trainings",
    "/trainings/x", "/trainings/x/cancel", "/nothing", "//", "/%ff%00", "/predictions/%2e%2e%2fx",
    "/predictions?limit=-1", "/predictions?cursor=%00", "/predictions?status=x",
    "/predictions?limit=99999999999999999999", "*", "/predictions/" + "a" * 3000,
)  # fmt: skip
VALUES = ("", "x", "-1", "0", "\x7f", "é", "a" * 5000, "wait=9999999999", "text/event-stream",
          "application/json", "respond-async", "1e999", "999999h", "Bearer x", "00-0-0-0",
          "multipart/form-data; boundary=x", "text/html", "gzip")  # fmt: skip
NAMES = ("Accept", "Prefer", "Content-Type", "Cancel-After", "Last-Event-ID", "Authorization",
         "traceparent", "Expect", "Content-Encoding", "X-Api-Key", "Cookie", "Origin")  # fmt: skip
BODIES = (b"", GOOD, b"{", b"null", b"[]", b"\xff\xfe", b'"' * 999, b"[" * 5000, b'{"input": 1}',
          b'{"input": {"name": "\\u0000"}}', b'{"input": {"name": 1e999}}', b'{"id": "\\ud800"}',
          b'{"webhook": "http://x:99999/", "input": {"name": "w"}}', b'{"retries": -5}',
          b'{"retries": 1e30}', b'{"context": {"a": 1}}', b'{"id": "../x"}',
          b'{"webhook": "gopher://\\u0000", "input": {"name": "w"}}')  # fmt: skip


def connect(server):
    return contextlib.closing(socket.create_connection(("127.0.0.1", server.port), 10))


def head(method="POST", path="/predictions", **headers):
    lines = [f"{method} {path} HTTP/1.1", "Host: x"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape")


def whole(body, **headers):
    return head(Content_Type="application/json", Content_Length=len(body), **headers) + body


def ask_nicely(server, name):
    began = time.monotonic()
    answer = server.request("POST", "/predictions", {"input": {"name": name}})
    assert answer.json()["status"] == "succeeded"
    assert server.get("/healthz").status_code == 200
    assert time.monotonic() - began < 5


def test_clients_that_leave_cancel_and_clients_that_dawdle_are_borne(cluster):
    server = cluster.start(env={"BODY_SECONDS": "1"})
    with contextlib.ExitStack() as stack:
        for _ in range(200):  # idle, or with half a head
            idle = stack.enter_context(connect(server))
            idle.sendall(random.choice([b"", b"GET / HT", head("GET", "/")[:-2]]))
        ask_nicely(server, "beside idle ones")
        half = stack.enter_context(connect(server))
        half.sendall(whole(GOOD)[:-5])
        ask_nicely(server, "beside half a body")
        half.settimeout(20)
        assert half.recv(100)[:13] in (b"HTTP/1.1 408 ", b""), "it was not dropped"
        pipelined = stack.enter_context(connect(server))
        pipelined.sendall(whole(GOOD) * 5)
        pipelined.settimeout(20)
        answers = b""
        while answers.count(b"HTTP/1.1 200") < 5:
            answers += pipelined.recv(65536)
    for name, more in (("sync", {}), ("stream", {"Accept": "text/event-stream"})):
        body = b'{"id": "%b", "input": {"name": "%b", "action": "gate"}}'
        with connect(server) as leaving:
            leaving.sendall(whole(body % (name.encode(), name.encode()), **more))
            cluster.until_begun(name)
        assert statuses(server, name) == {name: "canceled"}
    ask_nicely(server, "the last one")
    assert cluster.book("begun").count("ok") == 5
    assert cluster.book("ended").count("sync") == 0


def make_request(chance):
    """Something that looks like a request."""
    method, path = chance.choice(METHODS), chance.choice(PATHS)
    body = chance.choice([*BODIES, chance.randbytes(chance.randrange(200))])
    headers = {chance.choice(NAMES): chance.choice(VALUES) for _ in range(chance.randrange(4))}
    headers.setdefault("Content-Type", "application/json")
    length = chance.choice([len(body)] * 8 + ["-1", "x", "99999999999999999999"])
    return method, head(method, path, **headers, Content_Length=length) + body


def answer_to(server, data):
    """What comes back at once, if anything."""
    with connect(server) as client, contextlib.suppress(TimeoutError, ConnectionError):
        client.settimeout(0.15)
        client.sendall(data)
        return client.recv(4096)
    return b""


@pytest.fixture(scope="module")
def server(make_cluster):
    """A server for several tests."""
    return make_cluster().start(train="recording_predictor.py:train")


def test_nothing_that_comes_in_is_a_fault_of_the_server(server):
    chance = random.Random(11)
    end = time.monotonic() + SECONDS
    answers: Counter[bytes] = Counter()
    faults = []
    while time.monotonic() < end:
        method, data = make_request(chance)
        if chance.random() < 0.1:
            data = chance.randbytes(300)
        answer = answer_to(server, data)
        status = answer[9:12]
        answers[status] += 1
        if status.startswith(b"5"):
            faults.append((data[:300], answer[:400]))
    assert not faults, f"{len(faults)} of {answers}: {faults[:5]}"
    assert {b"200", b"400", b"404", b"405", b"415", b"422"} <= set(answers), answers
    wait_for(lambda: server.health()["status"] == "READY" or None, 30)
    assert "request failed" not in server.text()
    assert "Traceback" not in server.text(), server.text()[-3000:]
    submit(server, "normal")
    assert statuses(server, "normal") == {"normal": "succeeded"}
    assert all(
        each["status"] in FINAL
        for each in server.get("/predictions", params={"limit": "1000"}).json()["results"]
    )
    assert record(server, "normal")["output"] == ["normal"]


def test_a_client_that_reads_nothing_of_its_stream_holds_up_nobody(server):
    with contextlib.suppress(httpx2.TransportError), connect(server) as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        name = b"d" * 2_000_000
        deaf.sendall(whole(b'{"input": {"name": "%b"}}' % name, Accept="text/event-stream"))
        ask_nicely(server, "beside a deaf one")

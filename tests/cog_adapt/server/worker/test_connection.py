"""The worker's end of its socket."""

import os
import socket
import threading
from typing import Any

import pytest

from cog_adapt.server.protocol import AskHealth, Cancel, Frames, Log, Run, Stop, to_frame
from cog_adapt.server.worker import connection as module
from cog_adapt.server.worker.connection import Connection
from tests.cog_adapt.waiting import wait_until

SECONDS = 10
PARENT = os.getpid()
MOST_WAITING = 20_000


class Ends:
    """Both ends: `connection` here, and the socket of the front process."""

    def __init__(self):
        self.front, self.socket = socket.socketpair()
        self.front.settimeout(SECONDS)
        self.connection = Connection(self.socket, "tmpmine_")
        self.frames = Frames.of_reports()
        self.received = []

    def receive(self, count):
        while len(self.received) < count:
            self.received += self.frames.feed(self.front.recv(2**20))
        return self.received


@pytest.fixture
def ends():
    made = Ends()
    yield made
    made.connection.close()
    made.front.close()
    made.socket.close()


def log(number):
    return Log("p", "stdout", f"{number}\n")


def test_the_thread_ends_the_process_where_the_front_is_gone(ends, monkeypatch):
    abandoned = threading.Event()
    monkeypatch.setattr(ends.connection, "abandon", abandoned.set)
    ends.front.close()
    ends.connection.send(log(1))
    assert abandoned.wait(SECONDS)


def test_reports_arrive_whole_and_in_order(ends):
    reports = [Log("p", "stdout", "x" * 3_000_000), *map(log, range(1000))]
    for report in reports:
        ends.connection.send(report)
    assert ends.receive(len(reports)) == reports


def test_who_sends_too_much_waits_for_the_front(ends):
    large = Log("p", "stdout", "x" * 3_000_000)  # more than the socket takes
    reports = [large, *map(log, range(MOST_WAITING + 1)), log("last")]
    sender = threading.Thread(target=lambda: [ends.connection.send(each) for each in reports])
    sender.start()
    wait_until(lambda: ends.connection.waiting == MOST_WAITING + 1)
    sender.join(0.2)
    assert sender.is_alive()
    assert ends.connection.waiting == MOST_WAITING + 1
    assert ends.receive(len(reports)) == reports
    sender.join(SECONDS)


def test_requests_come_in_order_until_the_front_is_gone(ends):
    requests: list[Any] = [Run("p", b"{}", {"a": "b"}), Cancel("p"), AskHealth(), Stop()]
    stream = b"".join(map(to_frame, requests))
    ends.front.sendall(stream[:7])
    threading.Timer(0.05, lambda: (ends.front.sendall(stream[7:]), ends.front.close())).start()
    assert list(ends.connection.requests()) == requests


def test_a_broken_socket_is_as_the_front_gone(ends):
    ends.socket.close()
    assert list(ends.connection.requests()) == []


def test_what_is_no_request_ends_them_and_is_logged(ends, capsys):
    ends.front.sendall(to_frame(Stop()) + to_frame(log(1)))
    assert list(ends.connection.requests()) == []
    assert "msgspec.ValidationError" in capsys.readouterr().err


def test_it_is_closed_once_all_is_written(ends):
    for number in range(50):
        ends.connection.send(log(number))
    ends.connection.close()
    assert ends.receive(50) == [log(number) for number in range(50)]


@pytest.mark.parametrize("is_fork", [False, True])
def test_abandoned_it_takes_its_files_and_programs_along(ends, monkeypatch, is_fork):
    calls = []
    monkeypatch.setattr(module, "remove_temp_files", lambda prefix: calls.append(prefix))
    monkeypatch.setattr(module, "end_descendants", lambda: calls.append("programs"))
    monkeypatch.setattr(os, "_exit", calls.append)
    if is_fork:
        monkeypatch.setattr(os, "getpid", lambda: PARENT + 1)
    ends.connection.abandon()
    assert calls == [*([] if is_fork else ["tmpmine_"]), "programs", 1]


def test_a_large_request_comes_in_few_reads(ends, monkeypatch):
    sizes: list[int] = []
    feed = Frames.feed

    def counted(frames, data):
        sizes.append(len(data))
        return feed(frames, data)

    monkeypatch.setattr(Frames, "feed", counted)
    requests: list[Any] = [Run("p", b"x" * 20_000_000, {}), Cancel("p")]
    stream = b"".join(map(to_frame, requests))
    sender = threading.Thread(target=lambda: (ends.front.sendall(stream), ends.front.close()))
    sender.start()
    assert list(ends.connection.requests()) == requests
    sender.join(SECONDS)
    assert sum(sizes) == len(stream)
    assert len(sizes) <= 10


def test_a_front_that_is_gone_amid_a_large_request_ends_them(ends):
    ends.front.settimeout(None)
    part = to_frame(Run("p", b"x" * 2_000_000, {}))[:1_000_000]
    threading.Thread(target=lambda: (ends.front.sendall(part), ends.front.close())).start()
    assert list(ends.connection.requests()) == []

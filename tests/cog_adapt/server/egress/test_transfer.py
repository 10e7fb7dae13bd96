"""When one download ends early."""

import socket
import threading
import time

import httpcore2
import pytest

from cog_adapt.server.egress.transfer import TimedStream, Transfer
from tests.cog_adapt.waiting import assert_stays


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


class Stream(httpcore2.NetworkStream):
    def __init__(self, connected):
        self._connected = connected

    def read(self, max_bytes, timeout=None):
        self._connected.settimeout(timeout)
        try:
            return self._connected.recv(max_bytes)
        except TimeoutError as error:
            raise httpcore2.ReadTimeout from error

    def get_extra_info(self, info):
        return self._connected


def test_an_abort_wakes_the_thread_that_reads(pair):
    ours, _ = pair
    transfer, read = Transfer(60), []
    transfer.begin()
    stream = transfer.follow(Stream(ours))
    reader = threading.Thread(target=lambda: read.append(stream.read(1)))
    reader.start()
    assert_stays(reader.is_alive, 0.05)
    transfer.abort()
    reader.join(5)
    assert read == [b""]
    with pytest.raises(httpcore2.ReadTimeout, match="cancelled"):
        transfer.seconds_left(None)
    transfer.close()


def test_a_connection_made_after_the_abort_is_shut_at_once(pair):
    ours, theirs = pair
    transfer = Transfer(60)
    transfer.abort()
    transfer.follow(Stream(ours))
    theirs.settimeout(5)
    assert theirs.recv(1) == b""
    transfer.close()


def test_what_drips_is_cut_off_after_a_pause(pair):
    ours, theirs = pair
    transfer = Transfer(0.2)
    stream, drips = TimedStream(Stream(ours), transfer), 100

    def drip():
        for _ in range(drips):
            theirs.send(b"x")
            time.sleep(0.02)

    dripping = threading.Thread(target=drip)
    dripping.start()
    with pytest.raises(httpcore2.ReadTimeout):  # each of them comes within the pause
        all(stream.read(1) for _ in range(drips))
    dripping.join()


def test_the_total_time_is_named_when_it_is_over():
    transfer = Transfer(60, 0.001)
    transfer.begin()
    time.sleep(0.01)
    with pytest.raises(httpcore2.ReadTimeout, match=r"0\.001 s \(DOWNLOAD_SECONDS\)"):
        transfer.seconds_left(None)

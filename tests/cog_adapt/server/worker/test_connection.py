"""The worker's end of its sockets."""

import os
import queue
import socket
import threading
import time

import msgspec
import pytest

from cog_adapt.server.protocol import AskHealth, Cancel, Frames, Log, Run, Stop, to_frame
from cog_adapt.server.worker import connection as module
from cog_adapt.server.worker.connection import Connection

SECONDS = 10


class Ends:
    """Both ends: `connection` here, and the sockets of the front process."""

    def __init__(self):
        self.front, self.work = socket.socketpair()
        self.front_control, self.control = socket.socketpair()
        self.front.settimeout(SECONDS)
        self.connection = Connection(self.work, self.control, "tmpmine_")
        self.frames = Frames.of_reports()
        self.received = []

    def receive(self, count):
        while len(self.received) < count:
            self.received += self.frames.feed(self.front.recv(2**20))
        return self.received

    def has_nothing(self):
        self.front.setblocking(False)
        try:
            self.front.recv(1)
        except BlockingIOError:
            return True
        finally:
            self.front.settimeout(SECONDS)
        return False

    def take_over_wakes(self):
        """From now on the writer's thread is not woken."""
        self.connection._wake = queue.SimpleQueue()
        return self.connection._wake


@pytest.fixture
def ends():
    made = Ends()
    wakes = made.connection._wake
    yield made
    made.front.close()
    made.front_control.close()
    wakes.put(False)
    made.connection._outbox.clear()
    made.connection._writer.join(SECONDS)
    made.work.close()
    made.control.close()


def log(number):
    return Log("p", "stdout", f"{number}\n")


def test_programs_do_not_inherit_the_sockets(ends):
    for each in (ends.work, ends.control):
        assert not each.get_inheritable()
        assert each.getblocking()


def test_a_report_is_sent_by_a_thread_of_its_own(ends):
    ends.connection.send(log(1))
    assert ends.receive(1) == [log(1)]


def test_an_added_report_goes_out_with_the_next_one_and_before_it(ends):
    ends.connection.add(log(1))
    time.sleep(0.05)
    assert ends.has_nothing()
    ends.connection.send(log(2))
    assert ends.receive(2) == [log(1), log(2)]


def test_a_flush_writes_here_and_now(ends):
    wakes = ends.take_over_wakes()
    ends.connection.flush()
    ends.connection.add(log(1))
    ends.connection.add(log(2))
    ends.connection.flush()
    assert ends.receive(2) == [log(1), log(2)]
    assert wakes.empty()


def test_a_flush_leaves_to_the_thread_what_needs_waiting(ends):
    large = Log("p", "stdout", "x" * 3_000_000)
    wakes = ends.take_over_wakes()
    ends.connection.add(large)
    ends.connection.add(log(2))
    ends.connection.flush()
    ends.connection.flush()  # now there is no room at all
    assert wakes.get_nowait() is True
    writer = threading.Thread(target=ends.connection._write, daemon=True)
    wakes.put(False)
    writer.start()
    assert ends.receive(2) == [large, log(2)]
    writer.join(SECONDS)


def test_a_flush_does_not_wait_for_one_who_writes(ends):
    wakes = ends.take_over_wakes()
    ends.connection.add(log(1))
    with ends.connection._is_writing:
        ends.connection.flush()
        assert ends.has_nothing()
    assert wakes.get_nowait() is True
    ends.connection.flush()
    assert ends.receive(1) == [log(1)]
    assert not ends.connection._is_writing.locked()


def test_a_flush_into_nowhere_ends_the_process(ends, monkeypatch):
    ends.front.close()
    monkeypatch.setattr(ends.connection, "abandon", lambda: (_ for _ in ()).throw(SystemExit(1)))
    ends.connection.add(log(1))
    with pytest.raises(SystemExit):
        ends.connection.flush()


def test_the_thread_ends_the_process_where_the_front_is_gone(ends, monkeypatch):
    abandoned = threading.Event()
    monkeypatch.setattr(ends.connection, "abandon", abandoned.set)
    ends.front.close()
    ends.connection.send(log(1))
    assert abandoned.wait(SECONDS)


def test_a_large_report_arrives_whole_also_where_the_socket_does_not_block(ends):
    ends.work.setblocking(False)
    large = Log("p", "stdout", "x" * 3_000_000)
    ends.connection.send(large)
    ends.connection.send(log(2))
    assert ends.receive(2) == [large, log(2)]


def test_who_sends_too_much_waits_for_the_front(ends, monkeypatch):
    monkeypatch.setattr(module, "_MOST_WAITING", 2)
    sender = threading.Thread(target=lambda: [ends.connection.send(log(n)) for n in range(4)])
    with ends.connection._is_writing:
        sender.start()
        sender.join(0.1)
        assert sender.is_alive()
        assert len(ends.connection._outbox) == 3
    sender.join(SECONDS)
    assert ends.receive(4) == [log(n) for n in range(4)]


def test_frames_are_joined_up_to_a_limit(ends, monkeypatch):
    frames = [to_frame(log(n)) for n in range(4)]
    monkeypatch.setattr(module, "_MOST_JOINED", len(frames[0]) + 1)
    ends.connection._outbox.extend(frames)
    taken = [ends.connection._take() for _ in range(3)]
    assert taken == [frames[0] + frames[1], frames[2] + frames[3], b""]


def test_work_comes_in_order_until_the_front_is_gone(ends):
    run = Run("p", b"{}", {"a": "b"})
    ends.front.sendall(to_frame(run) + to_frame(Stop()))
    ends.front.shutdown(socket.SHUT_WR)
    assert list(ends.connection.work()) == [run, Stop()]


def test_work_is_had_without_waiting(ends):
    assert ends.connection.work_that_has_come() == []
    frame = to_frame(Stop())
    ends.front.sendall(frame[:3])
    assert ends.connection.work_that_has_come() == []
    ends.front.sendall(frame[3:])
    assert ends.connection.work_that_has_come() == [Stop()]
    ends.front.close()
    assert ends.connection.work_that_has_come() is None


def test_a_broken_socket_is_as_the_front_gone(ends):
    ends.work.close()
    assert list(ends.connection.work()) == []
    assert ends.connection.work_that_has_come() is None


def test_what_is_no_work_ends_it_and_is_logged(ends, capsys):
    ends.front.sendall(to_frame(AskHealth()))
    assert list(ends.connection.work()) == []
    assert "msgspec.ValidationError" in capsys.readouterr().err


def test_the_descriptor_is_that_of_the_work(ends):
    assert ends.connection.work_socket() == ends.work.fileno()


def test_control_comes_by_its_own_socket(ends):
    ends.front_control.sendall(to_frame(Cancel("p", 1)) + to_frame(AskHealth()))
    ends.front_control.shutdown(socket.SHUT_WR)
    assert list(ends.connection.control()) == [Cancel("p", 1), AskHealth()]


def test_what_is_no_control_message_is_an_error(ends):
    ends.front_control.sendall(to_frame(Stop()))
    with pytest.raises(msgspec.DecodeError):
        list(ends.connection.control())


def test_it_is_closed_once_all_is_written(ends):
    for number in range(50):
        ends.connection.add(log(number))
    ends.connection.close()
    assert not ends.connection._writer.is_alive()
    assert ends.receive(50) == [log(number) for number in range(50)]


@pytest.mark.parametrize("is_fork", [False, True])
def test_abandoned_it_takes_its_files_and_programs_along(ends, monkeypatch, is_fork):
    calls = []
    monkeypatch.setattr(module, "remove_temp_files", lambda prefix: calls.append(prefix))
    monkeypatch.setattr(module, "end_descendants", lambda: calls.append("programs"))
    monkeypatch.setattr(os, "_exit", calls.append)
    if is_fork:
        ends.connection._process += 1
    ends.connection.abandon()
    assert calls == [*([] if is_fork else ["tmpmine_"]), "programs", 1]


def test_the_limits_are_those_that_were_measured():
    assert (module._MOST_WAITING, module._MOST_JOINED) == (20_000, 2**20)

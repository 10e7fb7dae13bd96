"""The front's end of the socket to a worker."""

import asyncio
import socket
import threading
from typing import Any

from cog_adapt.server.protocol import Finished, Log, Output, Report, to_frame
from cog_adapt.server.service.worker_process import Connection
from tests.cog_adapt.waiting import until


def link_and_peer(on_report, on_end=lambda _: None):
    ours, theirs = socket.socketpair()
    return Connection(ours, on_report, on_end), theirs


def test_one_report_that_cannot_be_taken_loses_no_other():
    async def scene():
        heard = []

        def on_report(report):
            heard.append(report.id)
            if report.id == "bad":
                raise ValueError(report.id)

        _, theirs = link_and_peer(on_report)
        names = ["bad", "good", "bad", "better"]
        theirs.sendall(b"".join(to_frame(Finished(name, "succeeded")) for name in names))
        await until(lambda: len(heard) == 4)
        assert heard == names
        theirs.close()

    asyncio.run(scene())


def test_a_peer_that_is_not_understood_is_left():
    async def scene():
        faults: list[Any] = []
        link, theirs = link_and_peer(lambda _: None, faults.append)
        theirs.sendall(b"\x00\x00\x00\x02hi")
        theirs.setblocking(False)
        assert await asyncio.get_running_loop().sock_recv(theirs, 1) == b""
        assert faults == ["said what is no report, and was killed"]
        assert link.write(b"x") is False
        theirs.close()

    asyncio.run(scene())


def test_a_frame_larger_than_the_socket_takes_arrives_whole():
    async def scene():
        link, theirs = link_and_peer(lambda _: None)
        theirs.setblocking(False)
        frame = bytes(range(256)) * 20_000
        assert link.write(frame)
        assert link.write(b"end")
        got = b""
        while len(got) < len(frame) + 3:
            got += await asyncio.get_running_loop().sock_recv(theirs, 2**20)
        assert got == frame + b"end"
        theirs.close()
        await until(lambda: link.write(b"x") is False)

    asyncio.run(scene())


def test_what_was_said_before_the_end_is_read_and_the_socket_closed():
    async def scene():
        heard: list[Any]
        heard, ends = [], list[Any]()
        link, theirs = link_and_peer(heard.append, ends.append)
        frames = [to_frame(Log("a", "stdout", "x" * 300_000)) for _ in range(3)]
        sending = asyncio.create_task(asyncio.to_thread(theirs.sendall, b"".join(frames)))
        await until(sending.done)
        theirs.sendall(to_frame(Finished("a", "succeeded")))
        theirs.close()
        link.drain()
        assert [type(report) for report in heard] == [Log, Log, Log, Finished]
        assert (link._socket.fileno(), ends) == (-1, ["closed its connection, and was killed"])
        link.drain()  # nothing is left to close

    asyncio.run(scene())


def test_others_have_their_turn_before_and_after_each_large_output():
    """Counted in turns of the loop, of which another has one between any two of these."""
    large = Output("a", b"1" * (2**20 + 1))
    log = Log("a", "stdout", "x")
    reports: list[Report] = [log, large, large, log, large, Finished("a", "succeeded")]

    async def scene():
        heard: list[Any] = []
        turn = 0

        def count():
            nonlocal turn
            turn += 1
            loop.call_soon(count)

        loop = asyncio.get_running_loop()
        link, theirs = link_and_peer(lambda report: heard.append((turn, type(report))))
        read, decoded = link._read, []

        def note():
            before = len(link._reports)
            read()
            decoded.extend([turn] * (len(link._reports) > before))

        loop.add_reader(link._socket, note)
        loop.call_soon(count)
        await asyncio.to_thread(theirs.sendall, b"".join(map(to_frame, reports)))
        await until(lambda: len(heard) == len(reports))
        assert [kind for _, kind in heard] == [type(each) for each in reports]
        larges = [number for number, kind in heard if kind is Output]
        assert len(decoded) == len(set(larges)) == 3
        assert not {*larges} & {*decoded, heard[0][0], heard[-1][0]}
        theirs.close()

    asyncio.run(scene())


def test_a_large_output_that_waits_for_its_turn_is_published_before_the_end():
    async def scene():
        heard: list[Any] = []
        link, theirs = link_and_peer(heard.append)
        reports: list[Report] = [Output("a", b"1" * (2**20 + 1)), Finished("a", "succeeded")]
        sender = threading.Thread(target=theirs.sendall, args=(b"".join(map(to_frame, reports)),))
        sender.start()
        while not link._reports:  # and the loop has no turn
            link._read()
        assert heard == []
        sender.join()
        theirs.close()
        link.drain()
        assert heard == reports

    asyncio.run(scene())


def test_a_peer_that_ends_is_read_no_more():
    async def scene():
        ends: list[Any] = []
        link, theirs = link_and_peer(lambda _: None, ends.append)
        theirs.close()
        await until(lambda: link._socket.fileno() < 0)
        assert ends == ["closed its connection, and was killed"]
        assert link.write(b"x") is False

    asyncio.run(scene())


def test_what_waits_for_a_peer_that_breaks_is_dropped():
    async def scene():
        link, theirs = link_and_peer(lambda _: None)
        while not link._waiting:
            assert link.write(b"x" * 2**20)
        asyncio.get_running_loop().remove_reader(link._socket)  # which may see the end first
        theirs.close()
        await until(lambda: not link._waiting)
        link.drain()

    asyncio.run(scene())


def test_a_drain_does_not_wait_for_a_peer_that_says_nothing():
    async def scene():
        link, theirs = link_and_peer(lambda _: None)
        link.drain()
        assert link._socket.fileno() == -1
        theirs.close()

    asyncio.run(scene())

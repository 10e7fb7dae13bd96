"""Processes that stand where a worker's stands, and say what a worker hardly ever does."""

import fcntl
import os
import signal
import socket
import struct
import termios
from pathlib import Path

from cog_adapt.server.protocol import Finished, Frames, Log, Output, Report, Run, to_frame

LARGE = b"1" * (2**20 + 1)
_TAIL = 100  # bytes of a large report that are said with what comes after it


def enter(channel, config):
    """Do what the reference of a configuration names."""
    name, _, argument = config.reference.partition(":")
    {
        "say": say,
        "say and stay": say_and_stay,
        "last words": say_last_words,
        "repeat": repeat,
        "exit": leave,
        "babble": babble,
        "close": close,
    }[name](channel, argument)


def say(channel, ids):
    """Say reports, the end of each large one in one piece with what comes after it; and exit."""
    said: dict[str, Report] = {
        "large": Output("large", LARGE),
        "log": Log("log", "stdout", "x" * 300_000),
    }
    reports = [said.get(name, Finished(name, "succeeded")) for name in ids.split()]
    piece = b""
    for report in reports:
        piece += to_frame(report)
        if isinstance(report, Output):
            channel.sendall(piece[:-_TAIL])
            _wait_until_read(channel)
            piece = piece[-_TAIL:]
    channel.sendall(piece)


def say_and_stay(channel, ids):
    """Say reports, and live on."""
    say(channel, ids)
    signal.pause()


def say_last_words(channel, place):
    """Say the end of a large report with others when asked, and exit before they are read."""
    large, page = to_frame(Output("large", LARGE)), to_frame(Log("page", "stdout", "x" * 50_000))
    channel.sendall(large[:-_TAIL])
    _wait_until_read(channel)
    Path(place).touch()
    channel.recv(1)
    channel.sendall(large[-_TAIL:] + page + page)


def _wait_until_read(channel):
    unread = struct.pack("i", 1)
    while unread != struct.pack("i", 0):
        os.sched_yield()
        unread = fcntl.ioctl(channel, termios.TIOCOUTQ, unread)


def repeat(channel, count):
    """Say the sizes of so many inputs, and exit."""
    frames = Frames.of_requests()
    sizes: list[int] = []
    while len(sizes) < int(count):
        sizes += [len(each.input) for each in frames.feed(channel.recv(2**16)) if _is_run(each)]
    for size in sizes:
        channel.sendall(to_frame(Finished(str(size), "succeeded")))


def leave(_, code):
    """Exit with a code, or by a signal."""
    if int(code) >= 0:
        os._exit(int(code))
    signal.signal(-int(code), signal.SIG_DFL)
    os.kill(os.getpid(), -int(code))


def babble(channel, _):
    """Say what is no report, and live on."""
    channel.sendall(b"\x00\x00\x00\x02hi")
    signal.pause()


def close(channel, _):
    """Say something, wait for the beginning of an answer, close the socket, and live on."""
    channel.sendall(to_frame(Finished("last words", "succeeded")))
    channel.recv(1)
    channel.shutdown(socket.SHUT_RDWR)
    signal.pause()


def _is_run(request):
    return isinstance(request, Run)

"""The worker's end of the socket to the front process.

One thread always reads, also while a run() is running; another thread writes the reports of all
threads. Code that a cancelled thread may run takes no Python lock, which it could leave locked:
putting into a `SimpleQueue` cannot be interrupted.
"""

import os
import socket
import threading
import time
import traceback
from collections.abc import Iterator
from queue import SimpleQueue
from typing import NoReturn

import msgspec

from cog_adapt.server.files.temp_files import remove_temp_files
from cog_adapt.server.protocol import Frames, Report, Request, to_frame
from cog_adapt.server.worker.processes import end_descendants

_CHUNK, _LARGE_CHUNK = 2**18, 2**22
_MOST_JOINED = 2**20
_MOST_WAITING = 20_000
_PAUSE = 0.001


class Connection:
    """Sends reports out of this process, and takes requests into it.

    Args:
        channel: connected to the front process; this process ends when the front process is gone.
        prefix: of the temporary files to remove at the end.
    """

    def __init__(self, channel: socket.socket, prefix: str) -> None:
        channel.setblocking(True)
        # a program that the model starts must not keep the channel open
        channel.set_inheritable(False)
        os.register_at_fork(after_in_child=channel.close)
        self._socket = channel
        self._prefix = prefix
        self._process = os.getpid()
        self._outbox: SimpleQueue[bytes | None] = SimpleQueue()
        self._writer = threading.Thread(target=self._write, name="connection writer", daemon=True)
        self._writer.start()

    def send(self, *reports: Report) -> None:
        """Queue reports to be sent together; wait only if the front process lags far behind."""
        self._outbox.put(b"".join(map(to_frame, reports)))
        while self._outbox.qsize() > _MOST_WAITING:
            time.sleep(_PAUSE)

    @property
    def waiting(self) -> int:
        """The number of unwritten reports."""
        return self._outbox.qsize()

    def requests(self) -> Iterator[Request]:
        """Yield the front process's requests as they come, until it is gone."""
        frames = Frames.of_requests()
        while data := self._read(frames.missing):
            try:
                requests = frames.feed(data)
            except msgspec.DecodeError:
                traceback.print_exc()
                return  # a sender of other bytes than requests is not the front process
            yield from requests

    def close(self) -> None:
        """Return once all queued reports are written."""
        self._outbox.put(None)
        self._writer.join()

    def leave_if_forked(self) -> None:
        """End this process if it is a fork that has returned from its parent's run()."""
        if os.getpid() != self._process:
            self.abandon()

    def abandon(self) -> NoReturn:
        """End this process and all that it has started, without waiting for a running run()."""
        if os.getpid() == self._process:  # a fork shares its inputs with its parent
            remove_temp_files(self._prefix)
        end_descendants()
        os._exit(1)

    def _read(self, missing: int) -> bytes:
        """Read some bytes; of a large frame, wait for all that are missing, or for _LARGE_CHUNK.

        A socket holds 200 kB: without this the thread would wait for the interpreter a hundred
        times, between other threads, while the front process sends 22 MB.
        """
        try:
            if missing > _CHUNK:
                return self._socket.recv(min(missing, _LARGE_CHUNK), socket.MSG_WAITALL)
            return self._socket.recv(_CHUNK)
        except OSError:
            return b""

    def _write(self) -> None:
        try:
            while frames := self._take():
                self._socket.sendall(b"".join(frames))
        except OSError:
            self.abandon()

    def _take(self) -> list[bytes]:
        """Wait for a frame; return it with the frames queued behind it, or b"" once closed.

        Written together, 61,000 items of a stream pass in a second, one by one 52,000.
        """
        frames, size = [], 0
        while (frame := self._outbox.get()) is not None:
            frames.append(frame)
            size += len(frame)
            if size >= _MOST_JOINED or self._outbox.empty():
                return frames
        if frames:
            self._outbox.put(None)  # leaves the mark for the next look
        return frames

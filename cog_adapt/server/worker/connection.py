"""The worker's end of the sockets to the front process.

Work (`Run`, `Stop`) is read by whoever does it, so that no thread has to be woken for it; what may
come meanwhile (`Cancel`, questions) has a socket and a thread of its own. Any thread may report:
one thread writes, or whoever calls `flush`; what has gathered goes out in one write. Nothing that a
cancelled thread may run takes a lock, which it could leave locked.
"""

import os
import select
import socket
import threading
import time
import traceback
from collections import deque
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any, NoReturn

import msgspec

from cog_adapt.server.protocol import ControlMessage, Frames, Report, Work, to_frame
from cog_adapt.server.temp_files import remove_temp_files
from cog_adapt.server.worker.processes import end_descendants

_CHUNK = 2**18
_MOST_JOINED = 2**20
_MOST_WAITING = 20_000
_PAUSE = 0.001


class Connection:
    """Reports out of, and requests into this process.

    Args:
        work: connected to the front process; where that is gone, so is this process.
        control: the same.
        prefix: of the temporary files that are to go with it.
    """

    def __init__(self, work: socket.socket, control: socket.socket, prefix: str) -> None:
        for each in (work, control):
            each.setblocking(True)
            each.set_inheritable(False)  # a program that the model starts must not keep it open
            os.register_at_fork(after_in_child=each.close)
        self._work, self._control, self._prefix = work, control, prefix
        self._process = os.getpid()
        self._frames = Frames.of_work()
        self._outbox: deque[bytes] = deque()
        self._wake: SimpleQueue[bool] = SimpleQueue()
        self._is_writing = threading.Lock()
        self._writer = threading.Thread(target=self._write, name="connection writer", daemon=True)
        self._writer.start()

    def add(self, report: Report) -> None:
        """Hand in a report that more follows at once; it goes out with that."""
        self._outbox.append(to_frame(report))

    def send(self, report: Report) -> None:
        """Hand in a report; waits only where the front process lags far behind."""
        self.add(report)
        self._wake.put(True)
        while len(self._outbox) > _MOST_WAITING:
            time.sleep(_PAUSE)

    def flush(self) -> None:
        """Write what was handed in, here and now as far as that needs no waiting.

        Not for code that can be cancelled.
        """
        if self._is_writing.acquire(blocking=False):
            try:
                frames = self._take()
                sent = self._work.send(frames, socket.MSG_DONTWAIT) if frames else 0
            except BlockingIOError:
                sent = 0
            except OSError:
                self.abandon()
            if rest := frames[sent:]:
                self._outbox.appendleft(rest)
            self._is_writing.release()
        if self._outbox:
            self._wake.put(True)

    def work(self) -> Iterator[Work]:
        """What is to be done, as it comes; ends where the front process is gone."""
        while (received := self._receive()) is not None:
            yield from received

    def work_that_has_come(self) -> list[Work] | None:
        """The same without waiting; None where the front process is gone."""
        try:
            return self._receive(socket.MSG_DONTWAIT)
        except BlockingIOError:
            return []

    def work_socket(self) -> int:
        """The descriptor at which to wait for work."""
        return self._work.fileno()

    def _receive(self, flags: int = 0) -> list[Any] | None:
        data = _read(self._work, flags)
        try:
            return self._frames.feed(data) if data else None
        except msgspec.DecodeError:
            traceback.print_exc()
            return None  # whoever says what is no work is not the front process

    def control(self) -> Iterator[ControlMessage]:
        """What else the front process asks for, until it is gone.

        Raises:
            msgspec.DecodeError: it says what is no request.
        """
        frames = Frames.of_control()
        while data := _read(self._control):
            yield from frames.feed(data)

    def close(self) -> None:
        """Return once all that was handed in is written."""
        self._wake.put(False)
        self._writer.join()

    def abandon(self) -> NoReturn:
        """End this process and all that it has started; a run() that is under way is not asked."""
        if os.getpid() == self._process:  # a fork's inputs are its parent's too
            remove_temp_files(self._prefix)
        end_descendants()
        os._exit(1)

    def _write(self) -> None:
        is_open = True
        while is_open:
            is_open = self._wake.get()
            with self._is_writing:
                self._write_waiting()

    def _write_waiting(self) -> None:
        try:
            while frames := self._take():
                self._write_all(frames)
        except OSError:
            self.abandon()

    def _write_all(self, frames: bytes) -> None:
        """Waits for room itself: an event loop that reads the socket may keep it from blocking."""
        rest = memoryview(frames)
        while rest:
            try:
                rest = rest[self._work.send(rest) :]
            except BlockingIOError:
                room = select.poll()
                room.register(self._work, select.POLLOUT)
                room.poll()

    def _take(self) -> bytes:
        """The oldest frames, joined; b"" for none."""
        frames, size = [], 0
        while self._outbox and size < _MOST_JOINED:
            frames.append(self._outbox.popleft())
            size += len(frames[-1])
        return b"".join(frames)


def _read(source: socket.socket, flags: int = 0) -> bytes:
    """What comes next; b"" where nothing will.

    Raises:
        BlockingIOError: nothing has come, and the flags forbid to wait.
    """
    try:
        return source.recv(_CHUNK, flags)
    except BlockingIOError:
        raise
    except OSError:
        return b""

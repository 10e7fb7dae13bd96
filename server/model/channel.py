"""The model process's end of the socket to the front process.

Any thread may send; one thread writes, and joins what has gathered meanwhile into one write.
Nothing here takes a lock that a cancelled thread could leave locked.
"""

import os
import socket
import threading
import time
from collections.abc import Iterator
from queue import SimpleQueue

from server.model.children import end_descendants
from server.protocol import Frames, Report, Request, to_frame

_CHUNK = 2**18
_MOST_JOINED = 2**20
_MOST_WAITING = 20_000
_PAUSE = 0.001


class Channel:
    """Frames out of, and requests into this process.

    Args:
        channel: connected to the front process; where that is gone, so is this process.
    """

    def __init__(self, channel: socket.socket) -> None:
        channel.setblocking(True)
        channel.set_inheritable(False)  # a program that the model starts must not keep it open
        self._socket = channel
        self._outbox: SimpleQueue[bytes | None] = SimpleQueue()
        self._writer = threading.Thread(target=self._write, name="channel writer", daemon=True)
        self._writer.start()
        os.register_at_fork(after_in_child=channel.close)

    def send(self, report: Report) -> None:
        """Hand in a report; waits only where the front process lags far behind."""
        self._outbox.put(to_frame(report))
        while self._outbox.qsize() > _MOST_WAITING:
            time.sleep(_PAUSE)

    def requests(self) -> Iterator[Request]:
        """What the front process asks for, until it is gone.

        Raises:
            msgspec.DecodeError: it says what is no request.
        """
        frames = Frames.of_requests()
        while True:
            try:
                data = self._socket.recv(_CHUNK)
            except OSError:
                data = b""
            if not data:
                return
            yield from frames.feed(data)

    def close(self) -> None:
        """Return once all that was handed in is written."""
        self._outbox.put(None)
        self._writer.join()

    def _write(self) -> None:
        is_open = True
        while is_open:
            frames: list[bytes] = []
            frame = self._outbox.get()
            size = 0
            while frame is not None:
                frames.append(frame)
                size += len(frame)
                if size > _MOST_JOINED or self._outbox.empty():
                    break
                frame = self._outbox.get()
            is_open = frame is not None
            try:
                self._socket.sendall(b"".join(frames))
            except OSError:
                exit_at_once()


def exit_at_once() -> None:
    """End this process and all that it has started; a run() that is under way is not asked."""
    end_descendants()
    os._exit(1)

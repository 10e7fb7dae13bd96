"""Reports to the front process that this process lives, and its model thread's beat.

It runs on a thread of its own: a Python loop, however long, does not stop it; a call into C that
never returns and keeps the interpreter's lock does.
"""

import threading
import time
from collections.abc import Callable

from cog_adapt.server.protocol import Beat
from cog_adapt.server.worker.active import NO_PREDICTION, Send, current
from cog_adapt.server.worker.config import WorkerConfig

_MOST_SECONDS = 1.0
_BEATS = 4  # beats in the time after which silence counts as a hang


class Heartbeat:
    """Reports a `Beat` periodically.

    Args:
        send: to the front process.
        config: has the seconds after which silence counts as a hang.
    """

    def __init__(self, send: Send, config: WorkerConfig) -> None:
        self._send = send
        limit = config.hang_seconds / _BEATS if config.hang_seconds else _MOST_SECONDS
        self._seconds = min(_MOST_SECONDS, limit)
        self._read: Callable[[], Beat] = Beat
        threading.Thread(target=self._run, name="heartbeat", daemon=True).start()

    def watch(self, read: Callable[[], Beat]) -> None:
        """Call this for each beat from now on; it returns at once and never raises."""
        self._read = read

    def last_words(self) -> tuple[Beat, ...]:
        """Return the beat to send before other reports if the process is unusable."""
        beat = self._read()
        return (beat,) if beat.fatal else ()

    def _run(self) -> None:
        current.set(NO_PREDICTION)  # what a predictor's method prints belongs to no prediction
        while True:
            time.sleep(self._seconds)
            self._send(self._read())

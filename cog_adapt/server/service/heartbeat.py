"""Detects a hung worker: it sends no message, or its model thread ends no tick.

A worker that reports a fatal error is ended too.
"""

import asyncio
from collections.abc import Callable

from cog_adapt.server.protocol import Beat

_MOST_SECONDS = 1.0
_LOOKS = 4  # looks in the time after which silence counts as a hang
_PATIENCE_IN_SETUP = 10.0  # times the limit: loading a library may block the interpreter for long


class HeartbeatWatch:
    """Watches one worker process.

    Args:
        seconds: without a sign of life, after which the worker counts as hung; 0: never.
        count_signs: returns the number of its messages.
        on_hung: called with the reason, also if the process reports a fatal error.
    """

    def __init__(
        self, seconds: float, count_signs: Callable[[], int], on_hung: Callable[[str], None]
    ) -> None:
        self._seconds = seconds
        self._count_signs = count_signs
        self._on_hung = on_hung
        self._period = min(_MOST_SECONDS, seconds / _LOOKS)
        self._patience = _PATIENCE_IN_SETUP
        self._signs = 0
        self._silence = 0.0
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        if seconds:
            self._look_later()

    def end_setup(self) -> None:
        """Use the shorter timeout from the end of setup on."""
        self._patience = 1.0

    def on_beat(self, beat: Beat) -> None:
        """Check the model thread's beat, and whether the process has a fatal error."""
        if beat.fatal:
            self._on_hung(f"could not continue, and was ended: {beat.fatal}")
            return
        limit = max(self._seconds, beat.allowed)
        if self._seconds and beat.busy > limit:
            which = "it said" if beat.allowed > self._seconds else "HANG_SECONDS"
            self._on_hung(
                f"hung: its model thread ended no tick for {beat.busy:.0f} s, at most {limit:g} s "
                f"are allowed ({which}), and it was killed"
            )

    def close(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()

    def _look_later(self) -> None:
        self._due = self._loop.time() + self._period
        self._timer = self._loop.call_later(self._period, self._look)

    def _look(self) -> None:
        """Measure the silence, without this process's own pauses."""
        signs, late = self._count_signs(), self._loop.time() - self._due
        if signs != self._signs:
            self._signs = signs
            self._silence = 0.0
        elif late < self._period:
            self._silence += self._period
        limit = self._seconds * self._patience
        self._look_later()
        if self._silence >= limit:
            self._on_hung(
                f"hung: it sent no heartbeat for {limit:g} s (HANG_SECONDS), and was killed"
            )

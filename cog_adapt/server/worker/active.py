"""The running predictions; finds the one that the calling code belongs to."""

import time
from collections.abc import Callable
from contextvars import ContextVar

from cog_adapt.server.protocol import Finished, Log, Report, Run, Status
from cog_adapt.server.worker.cancellation import Interruption
from cog_adapt.server.worker.lines import Lines, Source
from cog_adapt.server.worker.processes import descendants

Send = Callable[[Report], None]


class ActivePrediction:
    """A prediction from its `Run` to its `Finished`.

    Attributes:
        request: the run that the front process asked for.
        send: sends a report to the front process.
        lines: the printed text.
        interruption: ends the run early.
        metric_types: of the metrics recorded so far, by name.
        has_ended: whether the run has ended; then no more reports follow.
        children_before: the processes that existed before it began, which are not its own.
    """

    def __init__(self, request: Run, send: Send) -> None:
        self.request = request
        self.send = send
        self.lines = Lines(self._send_log)
        self.interruption = Interruption()
        self.metric_types: dict[str, str] = {}
        self.has_ended = False
        self.children_before: set[int] = set()
        self._began = time.monotonic()

    def begin(self) -> None:
        """Make it visible to `find_active`; its time counts from now."""
        self.children_before = descendants()
        self._began = time.monotonic()
        _running[self.request.id] = self

    def end(self, status: Status, error: str | None = None, *, is_list: bool = False) -> None:
        """Report the end to the front process, after the unterminated last line."""
        self.lines.close()
        self.has_ended = True
        _running.pop(self.request.id, None)
        seconds = time.monotonic() - self._began
        self.send(
            Finished(
                id=self.request.id,
                status=status,
                is_list=is_list,
                error=error,
                predict_time=seconds,
            )
        )

    def _send_log(self, source: Source, text: str) -> None:
        self.send(Log(self.request.id, source, text))


current: ContextVar[ActivePrediction | None] = ContextVar("current", default=None)
_running: dict[str, ActivePrediction] = {}


def find_active() -> ActivePrediction | None:
    """Return the prediction that the calling code belongs to.

    A thread started by a run() does not know its prediction; if only one prediction runs, the
    thread belongs to that one.
    """
    mine = current.get()
    if mine is None:
        running = tuple(_running.values())
        return running[0] if len(running) == 1 else None
    return None if mine.has_ended else mine


def running_predictions() -> tuple[ActivePrediction, ...]:
    """Return the predictions that have begun and not ended."""
    return tuple(_running.values())


def _no_prediction() -> ActivePrediction:
    ended = ActivePrediction(Run("", b"{}", {}), lambda _report: None)
    ended.has_ended = True
    return ended


NO_PREDICTION = _no_prediction()

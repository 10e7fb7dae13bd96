"""The predictions under way, and which of them the calling code belongs to."""

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
        request: what was asked for.
        send: to the front process.
        lines: what it prints.
        interruption: the way to end it early.
        metric_types: of the metrics recorded so far, by name.
        has_ended: nothing more may be said about it.
        children_before: the processes that were there when it began, so not its own.
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
        """Be found by `find_active`; its time counts from now."""
        self.children_before = descendants()
        self._began = time.monotonic()
        _running[self.request.id] = self

    def end(self, status: Status, error: str | None = None, *, is_list: bool = False) -> None:
        """Tell the front process; the unterminated last line goes before."""
        self.lines.close()
        self.has_ended = True
        _running.pop(self.request.id, None)
        seconds = time.monotonic() - self._began
        self.send(Finished(self.request.id, status, is_list, error, seconds))

    def _send_log(self, source: Source, text: str) -> None:
        self.send(Log(self.request.id, source, text))


current: ContextVar[ActivePrediction | None] = ContextVar("current", default=None)
_running: dict[str, ActivePrediction] = {}


def find_active() -> ActivePrediction | None:
    """Return the prediction that the calling code belongs to.

    A thread that a run() has started does not know its prediction; it belongs to the only one
    that runs, if there is only one.
    """
    mine = current.get()
    if mine is None:
        running = tuple(_running.values())
        return running[0] if len(running) == 1 else None
    return None if mine.has_ended else mine


def running_predictions() -> tuple[ActivePrediction, ...]:
    """All that have begun and not ended."""
    return tuple(_running.values())


def _no_prediction() -> ActivePrediction:
    ended = ActivePrediction(Run("", b"{}", {}), lambda _report: None)
    ended.has_ended = True
    return ended


NO_PREDICTION = _no_prediction()

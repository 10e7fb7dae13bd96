"""Starts a worker process, watches it, and starts it again after a crash.

One listener gets all reports of the worker, and decides what happens to the predictions in
it.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Literal, Protocol

import structlog

from cog_adapt.server.protocol import (
    Described,
    Ready,
    Report,
    Request,
    SetupFailed,
    SetupLog,
    Stop,
)
from cog_adapt.server.service.crashes import CrashCounter
from cog_adapt.server.service.setup_progress import SetupProgress
from cog_adapt.server.service.worker_process import WorkerProcess
from cog_adapt.server.temp_files import new_prefix
from cog_adapt.server.worker.config import WorkerConfig

State = Literal["starting", "ready", "setup failed", "crashed", "defunct", "stopped"]
_STEADY_SECONDS = 60.0
_STOP_SECONDS = 2.0
_KILL_SECONDS = 1.0
_OF_SETUP = (Ready, SetupFailed, Described)
_SETTING_UP: tuple[State, ...] = ("starting", "defunct")  # a defunct one is tried now and then
log = structlog.get_logger()


class WorkerListener(Protocol):
    """Receives what a worker reports."""

    def on_report(self, report: Report) -> None:
        """Handle a report."""

    def on_exit(self, cause: str) -> None:
        """Handle the process's exit, which ended every run in it."""

    def explains_crash(self) -> bool:
        """Return whether what runs in the process is known to crash it."""


class WorkerSupervisor:
    """Keeps one worker process alive.

    Args:
        config: what it loads.
        listener: receives everything it reports.
        setup_timeout: seconds for its setup; 0: no limit.
        max_crashes: in a row, until it is defunct: then it is tried again seldom.

    Attributes:
        state: of the worker.
        setup: the latest.
        crashes: so far.
        was_replaced: whether it ended for the sake of one prediction, which is no crash.
        prefix: how the names of its temporary files begin.
    """

    def __init__(
        self,
        config: WorkerConfig,
        listener: WorkerListener,
        *,
        setup_timeout: float = 0,
        max_crashes: int = 5,
    ) -> None:
        self.prefix = new_prefix()
        self._config, self._listener = replace(config, prefix=self.prefix), listener
        self._setup_timeout = setup_timeout
        self.state: State = "starting"
        self.has_been_ready = self.was_replaced = False
        self.setup = SetupProgress()
        self.crashes = CrashCounter(max_crashes)
        self._process: WorkerProcess | None = None
        self._timers = _Timers()

    @property
    def takes_work(self) -> bool:
        """Whether the worker is ready and has not ended."""
        return self.state == "ready" and not (self._process is not None and self._process.is_over)

    @property
    def may_start(self) -> bool:
        """Whether the worker was never started, or has ended since its setup failed."""
        return self._process is None or (self.state == "setup failed" and self._has_exited)

    @property
    def _has_exited(self) -> bool:
        return self._process is not None and self._process.exited.is_set()

    def start(self) -> None:
        """Start it; what comes of it is reported."""
        if self.state != "defunct":
            self.state = "starting"
        self.setup, self.was_replaced = SetupProgress(), False
        process = self._process = WorkerProcess(self._config, self._on_report, self._on_exit)
        if self._setup_timeout:
            self._timers.call_later(self._setup_timeout, lambda: self._time_out(process))

    def send(self, request: Request) -> bool:
        """Send a request. Return False if the worker is gone and cannot have read the request."""
        return self._process is not None and self._process.send(request)

    def kill(self) -> None:
        """Kill the worker."""
        if self._process is not None:
            self._process.kill()

    def replace(self, cause: str) -> None:
        """End it at once for the sake of one prediction, and start another."""
        if self._process is not None and not self._has_exited:
            self.was_replaced = True
            self._process.kill(cause)

    async def stop(self) -> None:
        """End it: at once during its setup, else within two seconds."""
        if self.state in _SETTING_UP:
            self.kill()
        self.state = "stopped"
        self._timers.forget()
        if self._process is None or self._has_exited:
            return
        self._process.send(Stop())
        for seconds in (_STOP_SECONDS, _KILL_SECONDS):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.exited.wait(), seconds)
                return
            self.kill()
        log.error("model process cannot be ended", kind=self._config.kind)

    def _on_report(self, report: Report) -> None:
        if isinstance(report, SetupLog):
            self.setup.add_log(report.data)
        elif isinstance(report, _OF_SETUP) and self.state not in _SETTING_UP:
            return  # too late: it has been stopped, or its time was over
        elif isinstance(report, Ready):
            self._end_setup("ready")
            self.has_been_ready = True
            self._timers.call_later(_STEADY_SECONDS, self.crashes.forgive)
        elif isinstance(report, SetupFailed):
            self.setup.self_test = report.self_test
            self._fail_setup(report.error)
            return
        self._listener.on_report(report)

    def _end_setup(self, state: State) -> None:
        self._timers.forget()
        self.state = state
        self.setup.complete()

    def _fail_setup(self, error: str) -> None:
        """Give the worker up if this is its first setup; after a crash, count another crash."""
        log.error("setup failed", kind=self._config.kind, error=error)
        self.setup.fail(error)
        if not self.has_been_ready:
            self._end_setup("setup failed")
            self._listener.on_report(SetupFailed(error))
        self.kill()

    def _time_out(self, process: WorkerProcess) -> None:
        if process is self._process and self.state in _SETTING_UP:
            self._fail_setup(f"worker setup timed out after {self._setup_timeout:g} s")

    def _on_exit(self, cause: str) -> None:
        self._timers.forget()
        if self.state in ("stopped", "setup failed"):
            self._listener.on_exit("it was stopped")
            return
        error = self.setup.error and f"failed in its setup: {self.setup.error}"
        self._crash(error or cause)

    def _crash(self, cause: str) -> None:
        crashes, is_excused = self.crashes, self.was_replaced or self._listener.explains_crash()
        (crashes.note if is_excused else crashes.add)(cause)
        log.error("model process ended", kind=self._config.kind, cause=cause, crashes=crashes.count)
        if not self.has_been_ready:
            self._fail_setup(f"worker crashed during setup: {cause}")
            self._listener.on_exit(cause)
            return
        if is_excused or not crashes.is_too_many:
            self.state = "crashed"
        else:
            self._end_setup("defunct")
        self._timers.call_later(crashes.pause, self.start)
        self._listener.on_exit(cause)


class _Timers:
    """Calls that come later, unless they are forgotten."""

    def __init__(self) -> None:
        self._handles: list[asyncio.TimerHandle] = []

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        self._handles.append(asyncio.get_running_loop().call_later(seconds, call))

    def forget(self) -> None:
        for handle in self._handles:
            handle.cancel()
        self._handles.clear()

"""The front's side of one worker: started, spoken to, watched, started again.

What it reports goes to one listener; what becomes of the predictions in it is the listener's
business.
"""

import asyncio
import contextlib
import multiprocessing
import os
import signal
import socket
from dataclasses import replace
from datetime import UTC, datetime
from typing import Literal, Protocol

import structlog

from cog_adapt.server.protocol import (
    Cancel,
    ControlMessage,
    Described,
    Ready,
    Report,
    Run,
    SetupFailed,
    SetupLog,
    Stop,
    to_frame,
)
from cog_adapt.server.service.connection import Connection
from cog_adapt.server.temp_files import new_prefix, remove_temp_files
from cog_adapt.server.worker.config import WorkerConfig
from cog_adapt.server.worker.entry import enter

State = Literal["starting", "ready", "setup failed", "crashed", "defunct", "stopped"]
_PAUSE, _LONGEST_PAUSE = 0.1, 30.0
_STEADY_SECONDS = 60.0
_STOP_SECONDS = 10.0
_OF_SETUP = (Ready, SetupFailed, Described)
log = structlog.get_logger()


class WorkerListener(Protocol):
    """Who wants to know."""

    def on_report(self, report: Report) -> None:
        """The process said something."""

    def on_exit(self, cause: str) -> None:
        """The process is gone, and with it whatever ran in it."""


class WorkerSupervisor:
    """One worker.

    Args:
        config: what it loads.
        listener: told of everything.
        setup_timeout: seconds for its setup; 0: no limit.
        max_crashes: in a row, until it is given up.

    Attributes:
        state: where it stands.
        logs: what its setup has printed.
        crashes: how often it has died.
        last_crash: how it died last.
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
        self._config, self._listener = config, listener
        self._setup_timeout, self._max_crashes = setup_timeout, max_crashes
        self.state: State = "starting"
        self.has_been_ready = False
        self.started_at = datetime.now(UTC)
        self.completed_at: datetime | None = None
        self._logs: list[str] = []
        self.crashes = self._crashes_in_a_row = 0
        self.last_crash: str | None = None
        self._setup_error: str | None = None
        self._process: multiprocessing.process.BaseProcess | None = None
        self._work: Connection | None = None
        self._control: Connection | None = None
        self._runs = 0
        self.prefix = new_prefix()
        self._timers: list[asyncio.TimerHandle] = []
        self._exited = asyncio.Event()

    @property
    def logs(self) -> str:
        """What its setup has printed so far."""
        return "".join(self._logs)

    @property
    def pid(self) -> int | None:
        """Its process id."""
        return self._process.pid if self._process else None

    @property
    def takes_work(self) -> bool:
        """Whether it is ready and has not ended."""
        return self.state == "ready" and not self._exited.is_set()

    @property
    def may_start(self) -> bool:
        """Whether it was never started, or has ended since its setup failed."""
        return self._process is None or (self.state == "setup failed" and self._exited.is_set())

    def start(self) -> None:
        """Start it; what comes of it is reported."""
        loop = asyncio.get_running_loop()
        self._setup_error = None
        self.state, self.started_at, self.completed_at = "starting", datetime.now(UTC), None
        self._logs.clear()
        self._exited.clear()
        work, control = socket.socketpair(), socket.socketpair()
        config = replace(self._config, prefix=self.prefix)
        process = multiprocessing.get_context("spawn").Process(
            target=enter, args=(work[1], control[1], config), name=f"model-{self._config.kind}"
        )
        process.start()
        for _, theirs in (work, control):
            theirs.close()
        self._process = process
        self._work, self._control = (
            Connection(ours, self._on_report, self.kill) for ours, _ in (work, control)
        )
        self._runs = 0
        loop.add_reader(process.sentinel, self._notice_exit, process)
        if self._setup_timeout:
            self._timers.append(loop.call_later(self._setup_timeout, self._time_out, process))

    def run(self, request: Run) -> bool:
        """Have it run something; false where it is known to be dead, and cannot have heard it."""
        self._runs += 1
        return self._work is not None and self._work.write(to_frame(request))

    def cancel(self, id: str) -> None:
        """Have it end early what it runs."""
        self.ask(Cancel(id, self._runs))

    def ask(self, request: ControlMessage) -> None:
        """Say something else to it; it hears that while it runs something."""
        if self._control is not None:
            self._control.write(to_frame(request))

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None and self._process.is_alive():
            self._process.kill()

    async def stop(self) -> None:
        """Have it end: at once during its setup, else within ten seconds."""
        if self.state == "starting":
            self.kill()
        self.state = "stopped"
        self._forget_timers()
        if self._process is None or self._work is None or self._exited.is_set():
            return
        self._work.write(to_frame(Stop()))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._exited.wait(), _STOP_SECONDS)
        if not self._exited.is_set():
            self.kill()
            await self._exited.wait()

    def _on_report(self, report: Report) -> None:
        if isinstance(report, SetupLog):
            self._logs.append(report.data)
        elif isinstance(report, _OF_SETUP) and self.state != "starting":
            return  # too late: it has been stopped, or its time was over
        elif isinstance(report, Ready):
            self._end_setup("ready")
            self.has_been_ready = True
            timer = asyncio.get_running_loop().call_later(_STEADY_SECONDS, self.reset_crash_count)
            self._timers.append(timer)
        elif isinstance(report, SetupFailed):
            self._fail_setup(report.error)
            return
        self._listener.on_report(report)

    def reset_crash_count(self) -> None:
        """It works: earlier crashes no longer count."""
        self._crashes_in_a_row = 0

    def _end_setup(self, state: State) -> None:
        self._forget_timers()
        self.state, self.completed_at = state, datetime.now(UTC)

    def _fail_setup(self, error: str) -> None:
        """The first one is not tried again; one after a crash counts as a crash."""
        log.error("setup failed", kind=self._config.kind, error=error)
        self._logs.append(f"{error}\n")
        self._setup_error = error
        if not self.has_been_ready:
            self._end_setup("setup failed")
            self._listener.on_report(SetupFailed(error))
        self.kill()

    def _time_out(self, process: multiprocessing.process.BaseProcess) -> None:
        if process is self._process and self.state == "starting":
            self._fail_setup(f"worker setup timed out after {self._setup_timeout:g} s")

    def _notice_exit(self, process: multiprocessing.process.BaseProcess) -> None:
        asyncio.get_running_loop().remove_reader(process.sentinel)
        process.join()
        _end_group(process.pid)
        remove_temp_files(self.prefix)
        self._exited.set()
        for link in filter(None, (self._work, self._control)):
            link.drain()
        self._work = self._control = None
        self._forget_timers()
        if self.state in ("stopped", "setup failed"):
            self._listener.on_exit("it was stopped")
            return
        error = self._setup_error and f"failed in its setup: {self._setup_error}"
        self._crash(error or _cause(process.exitcode))

    def _crash(self, cause: str) -> None:
        self.crashes += 1
        self._crashes_in_a_row += 1
        self.last_crash = cause
        log.error("model process ended", kind=self._config.kind, cause=cause, crashes=self.crashes)
        if not self.has_been_ready:
            self._fail_setup(f"worker crashed during setup: {cause}")
        elif self._crashes_in_a_row >= self._max_crashes:
            self._end_setup("defunct")
        else:
            self.state = "crashed"
            pause = min(_LONGEST_PAUSE, _PAUSE * 4 ** (self._crashes_in_a_row - 1))
            timer = asyncio.get_running_loop().call_later(pause, self.start)
            self._timers.append(timer)
        self._listener.on_exit(cause)

    def _forget_timers(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()


def _end_group(process: int | None) -> None:
    """Whatever the model has started goes with it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if process is not None:
            os.killpg(process, signal.SIGKILL)


def _cause(code: int | None) -> str:
    """How a process ended, in words."""
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            return f"was killed by signal {-code} ({signal.Signals(-code).name})"
    return f"exited with code {code}"

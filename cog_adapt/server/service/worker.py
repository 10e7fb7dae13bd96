"""A worker as the dispatcher sees it: its slots, its runs, and its process.

The worker restarts a process that has died.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Literal, Protocol

import structlog

from cog_adapt.server.adapter_messages import AdapterChanged, AdapterReport
from cog_adapt.server.files.temp_files import new_prefix
from cog_adapt.server.protocol import (
    Cancel,
    Described,
    Finished,
    Kind,
    Log,
    Metric,
    Output,
    Ready,
    Report,
    Request,
    Run,
    RunReport,
    SetupFailed,
    SetupLog,
)
from cog_adapt.server.service.adapter_link import AdapterLink
from cog_adapt.server.service.crashes import pause_before_start
from cog_adapt.server.service.pending import ANSWERS, PendingRequests
from cog_adapt.server.service.prediction import Prediction
from cog_adapt.server.service.setup_progress import SetupProgress
from cog_adapt.server.service.worker_process import WorkerProcess
from cog_adapt.server.settings import Settings
from cog_adapt.server.worker.config import WorkerConfig

State = Literal["idle", "starting", "ready", "setup failed", "crashed", "defunct", "stopped"]
OpenProcess = Callable[
    [WorkerConfig, Callable[[Report], None], Callable[[str], None]], WorkerProcess
]
_STEADY_SECONDS = 60.0
# a defunct worker is started again now and then
_SETTING_UP: tuple[State, ...] = ("starting", "defunct")
_OF_A_RUN = (Log, Output, Metric, Finished)
log = structlog.get_logger()


class WorkerEvents(Protocol):
    """Receives the events of a worker and of its runs."""

    def on_run_report(self, worker: "Worker", report: RunReport) -> None:
        """Handle a report about a run."""

    def on_ready(self, worker: "Worker", report: Ready, *, is_again: bool) -> None:
        """Handle a worker that has slots to fill."""

    def on_setup_failed(self, worker: "Worker", error: str) -> None:
        """Handle a worker whose setup failed for good."""

    def on_adapter_changed(self, worker: "Worker", report: AdapterChanged) -> None:
        """Handle the news that a worker has made, changed or removed an adapter."""

    def on_exit(self, worker: "Worker", cause: str) -> None:
        """Handle the exit of the worker's process."""


class Worker:
    """A worker with its slots, kept alive.

    Args:
        config: the code that the worker loads.
        events: the object that receives the worker's events.
        settings: the server's settings.

    Attributes:
        place: the worker's name, device and cores.
        state: the state of the process; `idle` before its first start.
        setup: the latest setup.
        ready: the report of the latest setup that succeeded; None before the first.
        description: facts from the predictor's code; None before the worker has sent them.
        crashes: the deaths of the process since the server started.
        last_crash: the cause of the last death, or None.
        crashed_at: the time of the last death, by the monotonic clock.
        was_replaced: whether the process was ended to stop one prediction.
        was_killed_from_outside: whether another program ended the process.
        slots: the number of predictions that run at once.
        running: the predictions in the worker, by the id of the run.
        beginning: predictions with a slot whose start is being recorded.
        pending: requests without an answer yet.
        adapters: requests about adapters, and their answers.
        prefix: the prefix of the names of the worker's temporary files.
        open_process: a function that starts a process.
        guests: receivers of the events of runs of another kind than the worker's.
    """

    def __init__(self, config: WorkerConfig, events: WorkerEvents, settings: Settings) -> None:
        self.prefix = new_prefix()
        self._config = replace(config, prefix=self.prefix)
        self.place = config.place
        self._events = events
        self._settings = settings
        self.state: State = "idle"
        self.setup = SetupProgress()
        self.ready: Ready | None = None
        self.description: Described | None = None
        self.crashes = 0
        self.last_crash: str | None = None
        self.crashed_at = 0.0
        self._crashes_in_a_row = 0
        self.was_replaced = self.was_killed_from_outside = False
        self.slots = config.concurrency or 1
        self.running: dict[str, Prediction] = {}
        self.beginning: dict[str, Prediction] = {}
        self.pending = PendingRequests(self.send)
        self.adapters = AdapterLink(self.send)
        self.open_process: OpenProcess = WorkerProcess
        self.guests: dict[Kind, WorkerEvents] = {}
        self._process: WorkerProcess | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_usable(self) -> bool:
        """Whether setup has succeeded, now or before a crash that the worker recovers from."""
        return self.state in ("ready", "crashed") or (
            self.state == "starting" and self.ready is not None
        )

    @property
    def _place(self) -> dict[str, str]:
        """The fields that tell this worker from others in a log line; none for the only one."""
        place = {"worker": self.place.name, "device": self.place.device}
        return {name: text for name, text in place.items() if text}

    @property
    def free_slots(self) -> int:
        """The number of further predictions that could run now."""
        return max(0, self.slots - self.load)

    @property
    def takes_work(self) -> bool:
        """Whether the worker could take a prediction now."""
        is_over = self._process is None or self._process.is_over
        return self.state == "ready" and not is_over and self.free_slots > 0

    @property
    def load(self) -> int:
        """The number of predictions that run here or begin."""
        return len(self.running) + len(self.beginning)

    @property
    def runs_alone(self) -> bool:
        """Whether a prediction is here that must run alone."""
        here = (*self.running.values(), *self.beginning.values())
        return any(each.must_run_alone for each in here)

    def takes(self, prediction: Prediction) -> bool:
        """Return whether the worker could run a prediction now.

        After a crash its predictions run alone, so that another crash shows the guilty one.
        """
        if not self.takes_work:
            return False
        return not self.load or not (prediction.must_run_alone or self.runs_alone)

    def run(self, prediction: Prediction) -> bool:
        """Start a prediction. Return False if the process is gone and cannot have read it."""
        request = prediction.request
        run = Run(
            id=prediction.run_id,
            input=request.input,
            context=request.context,
            prediction_id=request.id,
            kind=request.kind if self.guests else None,
        )
        if not self.send(run):
            return False
        self.running[prediction.run_id] = prediction
        return True

    def cancel(self, run_id: str) -> None:
        """Cancel a run, if it is here."""
        if run_id in self.running:
            self.send(Cancel(run_id))

    def send(self, request: Request) -> bool:
        """Send a request. Return False if the process is gone and cannot have read it."""
        return self._process is not None and self._process.send(request)

    def start(self) -> None:
        """Start the process if it was never started, or if it has ended after a failed setup."""
        has_exited = self._process is not None and self._process.exited.is_set()
        if self.state == "idle" or (self.state == "setup failed" and has_exited):
            self._start()

    def replace(self, cause: str) -> None:
        """Kill the process to stop one prediction, and start another."""
        if self._process is not None and not self._process.exited.is_set():
            self.was_replaced = True
            self._process.kill(cause)

    async def stop(self) -> None:
        """End the process: at once during its setup, else within two seconds."""
        if self._process is not None and self.state in _SETTING_UP:
            self._process.kill()
        self.state = "stopped"
        self._cancel_timer()
        if self._process is not None:
            await self._process.stop()

    def forgive_crashes(self) -> None:
        """Reset the count of crashes in a row, because the process works."""
        self._crashes_in_a_row = 0

    def on_report(self, report: Report) -> None:
        """Handle a report of the process."""
        if isinstance(report, _OF_A_RUN):
            self._events_of(report).on_run_report(self, report)
        elif isinstance(report, ANSWERS):
            self.pending.resolve(report)
        elif isinstance(report, AdapterReport):
            self.adapters.on_report(report)
            if isinstance(report, AdapterChanged):
                self._events.on_adapter_changed(self, report)
        elif isinstance(report, SetupLog):
            self.setup.add_log(report.data)
        elif self.state in _SETTING_UP:  # too late otherwise: it was stopped, or its time was over
            self._on_setup_report(report)

    def _events_of(self, report: RunReport) -> WorkerEvents:
        if not self.guests:
            return self._events
        prediction = self.running.get(report.id)
        kind = self._config.kind if prediction is None else prediction.request.kind
        return self.guests.get(kind, self._events)

    def on_exit(self, cause: str) -> None:
        """Handle the exit of the process, which ended every run in it."""
        self._cancel_timer()
        self.was_killed_from_outside = (
            self._process is not None and self._process.was_killed_from_outside
        )
        if self.state in ("stopped", "setup failed"):
            cause = "it was stopped"
        else:
            cause = f"failed in its setup: {self.setup.error}" if self.setup.error else cause
            self._on_crash(cause)
        self.pending.cancel_all()
        self.adapters.on_exit()
        self._events.on_exit(self, cause)
        for guest in self.guests.values():
            guest.on_exit(self, cause)

    def _start(self) -> None:
        if self.state != "defunct":
            self.state = "starting"
        self.setup = SetupProgress()
        self.was_replaced = self.was_killed_from_outside = False
        self._process = self.open_process(self._config, self.on_report, self.on_exit)
        if self._settings.cog_setup_timeout:
            self._call_later(self._settings.cog_setup_timeout, self._end_long_setup)

    def _on_setup_report(self, report: Report) -> None:
        if isinstance(report, Described):
            self.description = report
            self.slots = self._config.concurrency or report.concurrency
        elif isinstance(report, Ready):
            is_again = self.ready is not None
            self.ready = report
            self._end_setup("ready")
            self._call_later(_STEADY_SECONDS, self.forgive_crashes)
            self._events.on_ready(self, report, is_again=is_again)
            for guest in self.guests.values():
                guest.on_ready(self, report, is_again=is_again)
        elif isinstance(report, SetupFailed):
            self.setup.self_test = report.self_test
            self._fail_setup(report.error)

    def _end_setup(self, state: State) -> None:
        self._cancel_timer()
        self.state = state
        self.setup.complete()

    def _fail_setup(self, error: str) -> None:
        """Give the worker up after a failed first setup; a later one counts as a crash."""
        log.error("setup failed", kind=self._config.kind, error=error, **self._place)
        self.setup.fail(error)
        if self.ready is None:
            self._end_setup("setup failed")
            self._events.on_setup_failed(self, error)
        if self._process is not None:
            self._process.kill()

    def _end_long_setup(self) -> None:
        self._fail_setup(f"worker setup timed out after {self._settings.cog_setup_timeout:g} s")

    def _on_crash(self, cause: str) -> None:
        """Count a crash, and start another process after a pause.

        A crash that one prediction explains does not count against the worker.
        """
        is_explained = any(each.crashes or each.outside_kills for each in self.running.values())
        is_excused = self.was_replaced or is_explained
        self.crashes += 1
        self.last_crash, self.crashed_at = cause, time.monotonic()
        self._crashes_in_a_row += not is_excused
        log.error(
            "model process ended",
            kind=self._config.kind,
            cause=cause,
            crashes=self.crashes,
            **self._place,
        )
        if self.ready is None:
            self._fail_setup(f"worker crashed during setup: {cause}")
            return
        most = self._settings.max_crashes
        if is_excused or self._crashes_in_a_row < most:
            self.state = "crashed"
        else:
            self._end_setup("defunct")
        self._call_later(pause_before_start(self._crashes_in_a_row, most), self._start)

    def _call_later(self, seconds: float, call: Callable[[], None]) -> None:
        """Set the only timer: of a setup, of the time after it, or of the pause after a crash."""
        self._cancel_timer()
        self._timer = asyncio.get_running_loop().call_later(seconds, call)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

"""A worker as the dispatcher sees it: its process, its slots and its running predictions."""

from typing import Protocol

import structlog

from cog_adapt.server.adapter_messages import AdapterReport
from cog_adapt.server.protocol import (
    Cancel,
    Described,
    Finished,
    Log,
    Metric,
    Output,
    Ready,
    Report,
    Run,
    RunReport,
    SetupFailed,
)
from cog_adapt.server.service.adapter_link import AdapterLink
from cog_adapt.server.service.pending import ANSWERS, PendingRequests
from cog_adapt.server.service.prediction import Prediction
from cog_adapt.server.service.supervisor import WorkerSupervisor
from cog_adapt.server.settings import Settings
from cog_adapt.server.worker.config import WorkerConfig

log = structlog.get_logger()
_OF_A_RUN = (Log, Output, Metric, Finished)


class WorkerEvents(Protocol):
    """Receives the events of a worker and of its runs."""

    def on_run_report(self, worker: "Worker", report: RunReport) -> None:
        """Handle a report about a run."""

    def on_ready(self, report: Ready, *, is_again: bool) -> None:
        """Handle a worker that has slots to fill."""

    def on_setup_failed(self, error: str) -> None:
        """Handle a worker that will not serve."""

    def on_exit(self, worker: "Worker", cause: str) -> None:
        """Handle the exit of the worker's process."""


class Worker:
    """A worker process with its slots.

    Args:
        config: what the worker loads.
        events: receives what happens in the worker.
        settings: limits.

    Attributes:
        process: keeps the worker alive.
        slots: how many predictions run at once.
        running: the predictions in the worker, by the id of the run.
        beginning: predictions with a slot whose start is being recorded.
        pending: questions that the worker has not answered yet.
        adapters: questions about adapters, and their answers.
        description: facts from the predictor's code; None before the worker has sent them.
        ready: the report of the latest setup that succeeded; None before the first.
    """

    def __init__(self, config: WorkerConfig, events: WorkerEvents, settings: Settings) -> None:
        self._events = events
        self.process = WorkerSupervisor(
            config,
            self,
            setup_timeout=settings.cog_setup_timeout,
            max_crashes=settings.max_crashes,
        )
        self.slots = config.concurrency or 1
        self._slots_are_given = config.concurrency is not None
        self.running: dict[str, Prediction] = {}
        self.beginning: dict[str, Prediction] = {}
        self.pending = PendingRequests(self.process.send)
        self.adapters = AdapterLink(self.process.send)
        self.description: Described | None = None
        self.ready: Ready | None = None

    @property
    def free_slots(self) -> int:
        """The number of further predictions that could run now."""
        return max(0, self.slots - len(self.running) - len(self.beginning))

    @property
    def takes_work(self) -> bool:
        """Whether the worker could take a prediction now."""
        return self.process.takes_work and self.free_slots > 0

    @property
    def given_up(self) -> str | None:
        """Why it is not started again soon; None while it may be."""
        if self.process.state != "defunct":
            return None
        return f"the model process has given up: {self.process.crashes.last}"

    def start(self) -> None:
        """Start the process, once; again if its setup has failed."""
        if self.process.may_start:
            self.process.start()

    def takes(self, prediction: Prediction) -> bool:
        """Return whether it could run this now.

        What ran in a crash runs alone the next time, so that another crash tells whose fault it is.
        """
        if not self.takes_work:
            return False
        if not self.running and not self.beginning:
            return True
        beside = (*self.running.values(), *self.beginning.values())
        return not (prediction.crashes or any(each.crashes for each in beside))

    def run(self, prediction: Prediction) -> bool:
        """Start a prediction. Return False if the process is gone and cannot have read it."""
        request = prediction.request
        run = Run(request.run_id, request.input, request.context, request.id)
        if not self.process.send(run):
            return False
        self.running[prediction.run_id] = prediction
        return True

    def cancel(self, run_id: str) -> None:
        """Cancel a run, if it is here."""
        if run_id in self.running:
            self.process.send(Cancel(run_id))

    def end_cancelled(self, prediction_id: str, seconds: float) -> None:
        """End the process where a cancelled prediction still runs in it."""
        if prediction_id in self.running:
            log.error("cancel had no effect", prediction_id=prediction_id, seconds=seconds)
            self.process.replace(
                "was killed, because a cancelled prediction in it did not end within "
                f"{seconds:g} s (CANCEL_GRACE_SECONDS)"
            )

    def explains_crash(self) -> bool:
        """Return whether something runs here that was in a crash before: then it runs alone."""
        return any(each.crashes for each in self.running.values())

    def on_report(self, report: Report) -> None:
        """Handle a report of the process."""
        if isinstance(report, _OF_A_RUN):
            self._events.on_run_report(self, report)
        elif isinstance(report, ANSWERS):
            self.pending.resolve(report)
        elif isinstance(report, AdapterReport):
            self.adapters.on_report(report)
        elif isinstance(report, Ready):
            is_again, self.ready = self.ready is not None, report
            self._events.on_ready(report, is_again=is_again)
        elif isinstance(report, Described):
            self._describe(report)
        elif isinstance(report, SetupFailed):
            self._events.on_setup_failed(report.error)

    def on_exit(self, cause: str) -> None:
        """Handle the exit of the process."""
        self.pending.cancel_all()
        self.adapters.on_exit()
        self._events.on_exit(self, cause)

    def _describe(self, description: Described) -> None:
        self.description = description
        if not self._slots_are_given:
            self.slots = description.concurrency

"""One worker as the dispatcher sees it: its process, its slots, and what runs in them."""

from typing import Protocol

import structlog

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
    SetupFailed,
)
from cog_adapt.server.service.pending import ANSWERS, PendingRequests
from cog_adapt.server.service.prediction import Prediction
from cog_adapt.server.service.supervisor import WorkerSupervisor
from cog_adapt.server.settings import Settings
from cog_adapt.server.worker.config import WorkerConfig

log = structlog.get_logger()
RunReport = Log | Output | Metric | Finished
_OF_A_RUN = (Log, Output, Metric, Finished)


class WorkerEvents(Protocol):
    """Receives what becomes of a worker and of its runs."""

    def on_run_report(self, worker: "Worker", report: RunReport) -> None:
        """Take a report about a run."""

    def on_ready(self, report: Ready, *, is_again: bool) -> None:
        """Take notice that the worker has slots to fill."""

    def on_setup_failed(self, error: str) -> None:
        """Take notice that the worker will not serve."""

    def on_exit(self, worker: "Worker", cause: str) -> None:
        """Take notice that the worker's process is gone."""


class Worker:
    """A worker process with its slots.

    Args:
        config: what it loads.
        events: receives what happens in it.
        settings: limits.

    Attributes:
        process: keeps it alive.
        slots: how many predictions it runs at once.
        running: the predictions in it, by id.
        beginning: those that have a slot and are being written down before they start.
        pending: what it was asked and has not answered yet.
        description: what the predictor's code says about itself; None before that is known.
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
        self.description: Described | None = None
        self.ready: Ready | None = None

    @property
    def free_slots(self) -> int:
        """How many more could run now."""
        return max(0, self.slots - len(self.running) - len(self.beginning))

    @property
    def takes_work(self) -> bool:
        """Whether a prediction could be handed to it now."""
        return self.process.takes_work and self.free_slots > 0

    @property
    def given_up(self) -> str | None:
        """Why it is not started again soon; None while it may be."""
        if self.process.state != "defunct":
            return None
        return f"the model process has given up: {self.process.crashes.last}"

    def start(self) -> None:
        """Start the process, once; again where its setup has failed."""
        if self.process.may_start:
            self.process.start()

    def takes(self, prediction: Prediction) -> bool:
        """Whether it could run this now.

        What ran in a crash runs alone the next time, so that another crash tells whose fault it is.
        """
        if not self.takes_work:
            return False
        if not self.running and not self.beginning:
            return True
        beside = (*self.running.values(), *self.beginning.values())
        return not (prediction.crashes or any(each.crashes for each in beside))

    def run(self, prediction: Prediction) -> bool:
        """Start a prediction; return False where the process is gone and did not hear of it."""
        request = prediction.request
        if not self.process.send(Run(request.id, request.input, request.context)):
            return False
        self.running[prediction.id] = prediction
        return True

    def cancel(self, prediction_id: str) -> None:
        """Cancel a prediction, if it runs here."""
        if prediction_id in self.running:
            self.process.send(Cancel(prediction_id))

    def end_cancelled(self, prediction_id: str, seconds: float) -> None:
        """End the process where a cancelled prediction still runs in it."""
        if prediction_id in self.running:
            log.error("cancel had no effect", prediction_id=prediction_id, seconds=seconds)
            self.process.replace(
                "was killed, because a cancelled prediction in it did not end within "
                f"{seconds:g} s (CANCEL_GRACE_SECONDS)"
            )

    def explains_crash(self) -> bool:
        """Whether something runs here that was in a crash before: then it runs alone."""
        return any(each.crashes for each in self.running.values())

    def on_report(self, report: Report) -> None:
        """Take a report of the process."""
        if isinstance(report, _OF_A_RUN):
            self._events.on_run_report(self, report)
        elif isinstance(report, ANSWERS):
            self.pending.resolve(report)
        elif isinstance(report, Ready):
            is_again, self.ready = self.ready is not None, report
            self._events.on_ready(report, is_again=is_again)
        elif isinstance(report, Described):
            self._describe(report)
        elif isinstance(report, SetupFailed):
            self._events.on_setup_failed(report.error)

    def on_exit(self, cause: str) -> None:
        """Take notice that the process is gone."""
        self.pending.cancel_all()
        self._events.on_exit(self, cause)

    def _describe(self, description: Described) -> None:
        self.description = description
        if not self._slots_are_given:
            self.slots = description.concurrency

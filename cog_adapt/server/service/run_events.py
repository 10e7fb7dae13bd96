"""Applies a worker's reports, setups and crashes to its running predictions."""

import asyncio
from collections.abc import Callable

import msgspec
import structlog

from cog_adapt.server.adapter_messages import AdapterChanged
from cog_adapt.server.errors import BudgetSpent, TooLarge
from cog_adapt.server.protocol import Finished, Log, Metric, Output, Ready, RunReport
from cog_adapt.server.service.observer import Observer
from cog_adapt.server.service.prediction import Prediction
from cog_adapt.server.service.recorder import PredictionRecorder
from cog_adapt.server.service.slots import Slots
from cog_adapt.server.service.worker import Worker
from cog_adapt.server.shares.budget import Budget

_MOST_CRASHES = 2
_MOST_SECONDS_TO_INDEX = 2.0  # as late as any server learns of a change
log = structlog.get_logger()


class RunEvents:
    """Applies the reports of workers to the predictions that they run.

    Args:
        slots: of waiting and running predictions.
        recorder: records every change.
        observer: counts and traces every change.
        end: ends a prediction.
        answers: bytes that running predictions may put out.
    """

    def __init__(
        self,
        slots: Slots,
        recorder: PredictionRecorder,
        observer: Observer,
        end: Callable[[Prediction, Finished], None],
        answers: Budget,
    ) -> None:
        self._slots = slots
        self._recorder = recorder
        self._observer = observer
        self._end = end
        self._answers = answers

    def on_ready(self, worker: Worker, report: Ready, *, is_again: bool) -> None:
        """Fill the slots of a worker."""
        if self._slots.owns(worker):
            self._observer.set_up(report.self_test, is_again=is_again, worker=worker.place.name)
        self._slots.advance()

    def on_setup_failed(self, worker: Worker, error: str) -> None:
        """Fail the predictions that wait, unless another worker may run them."""
        if self._slots.is_set_up_in_vain:
            self._slots.fail_waiting(f"Setup failed: {error}")

    def on_adapter_changed(self, worker: Worker, report: AdapterChanged) -> None:
        """Remember which worker has an adapter."""
        if len(self._slots.workers) > 1:
            self._slots.placement.on_changed(worker, report)

    def on_run_report(self, worker: Worker, report: RunReport) -> None:
        """Apply a report to its prediction, unless the prediction has ended."""
        prediction = worker.running.get(report.id)
        if prediction is None:
            return
        if isinstance(report, Finished):
            worker.forgive_crashes()
            if prediction.overflow is not None:
                report = msgspec.structs.replace(report, status="failed", error=prediction.overflow)
            self._end_once_indexed(worker, prediction, report)
        elif self._has_room(worker, prediction, report):
            self._add(prediction, report)

    def _end_once_indexed(self, worker: Worker, prediction: Prediction, end: Finished) -> None:
        """End a run once every server of the database finds the adapter that the run has made."""
        write = worker.adapters.unwritten() if self._recorder.has_peers else None
        if write is None:
            self._end(prediction, end)
            return
        began = prediction.started_at  # another time if a crash makes it run again meanwhile

        def end_if_running(_: object = None) -> None:
            if worker.running.get(end.id) is prediction and prediction.started_at is began:
                self._end(prediction, end)

        write.add_done_callback(end_if_running)
        asyncio.get_running_loop().call_later(_MOST_SECONDS_TO_INDEX, end_if_running)

    def _add(self, prediction: Prediction, report: Output | Log | Metric) -> None:
        if isinstance(report, Output):
            prediction.add_output(report.chunk)
            self._recorder.on_output(prediction)
        elif isinstance(report, Log):
            prediction.add_log(report.source, report.data)
            self._recorder.on_log(prediction)
        else:
            value = prediction.add_metric(report.name, report.value, report.mode)
            self._observer.on_metric(prediction, report.name, value)

    def _has_room(
        self, worker: Worker, prediction: Prediction, report: Output | Log | Metric
    ) -> bool:
        """Count the output of a run; a run with too much output is ended."""
        if prediction.overflow is not None:
            return False
        size, owner = _size_of(report), prediction.request.owner
        try:
            self._answers.take(owner, size, prediction.answer_bytes)
        except (TooLarge, BudgetSpent) as refusal:
            prediction.overflow = f"The prediction puts out too much. {refusal}"
            worker.cancel(prediction.run_id)
            return False
        prediction.answer_bytes += size
        return True

    def on_exit(self, worker: Worker, cause: str) -> None:
        """Fail the predictions of a worker that is gone, unless they may run again."""
        if worker.state in ("crashed", "defunct") and self._slots.owns(worker):
            self._observer.crashed(worker.place.name)
        self._slots.placement.on_exit(worker)
        for prediction in reversed(self._slots.running_on(worker)):
            self._end_or_requeue(worker, prediction, cause)
        self._slots.fail_waiting_if_given_up()
        is_own = self._slots.owns(worker)
        if is_own and self._slots.waiting and self._slots.is_set_up_in_vain:
            worker.start()  # requests that came between the worker's failure and its end
        self._slots.advance()

    def _end_or_requeue(self, worker: Worker, prediction: Prediction, cause: str) -> None:
        if worker.was_killed_from_outside:
            prediction.outside_kills += 1
        elif not worker.was_replaced:
            prediction.crashes += 1
        if prediction.is_cancelled:
            self._end(prediction, Finished(prediction.id, "canceled"))
        elif prediction.overflow is not None:
            self._end(prediction, Finished(prediction.id, "failed", error=prediction.overflow))
        elif prediction.crashes >= _MOST_CRASHES:
            log.error("prediction quarantined", prediction_id=prediction.id, cause=cause)
            error = (
                f"Worker crashed: the model process {cause}, {_MOST_CRASHES} times while this "
                "prediction ran. It is quarantined: it does not run again, `retries` or not."
            )
            self._end(prediction, Finished(prediction.id, "failed", error=error))
        elif prediction.retries_left:
            del worker.running[prediction.run_id]
            self._answers.free(prediction.request.owner, prediction.answer_bytes)
            prediction.begin_again()
            self._slots.requeue(prediction)
        else:
            error = f"Worker crashed: the model process {cause}"
            self._end(prediction, Finished(prediction.id, "failed", error=error))


def _size_of(report: Output | Log | Metric) -> int:
    if isinstance(report, Output):
        return len(report.chunk)
    return len(report.data) if isinstance(report, Log) else len(report.value)

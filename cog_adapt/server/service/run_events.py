"""What becomes of running predictions: reports of their worker, its setups and its crashes."""

from collections.abc import Callable

import structlog

from cog_adapt.server.protocol import Finished, Log, Metric, Output, Ready
from cog_adapt.server.service.observer import Observer
from cog_adapt.server.service.prediction import Prediction
from cog_adapt.server.service.recorder import Recorder
from cog_adapt.server.service.slots import Slots
from cog_adapt.server.service.worker import RunReport, Worker

_MOST_CRASHES = 2
log = structlog.get_logger()


class RunEvents:
    """Applies what workers report to the predictions in them.

    Args:
        slots: where predictions wait and run.
        recorder: writes down every change.
        observer: counts and traces every change.
        end: ends a prediction.
    """

    def __init__(
        self,
        slots: Slots,
        recorder: Recorder,
        observer: Observer,
        end: Callable[[Prediction, Finished], None],
    ) -> None:
        self._slots, self._recorder, self._observer, self._end = slots, recorder, observer, end

    def on_ready(self, report: Ready, *, is_again: bool) -> None:
        """Fill the slots of a worker."""
        self._observer.set_up(report.self_test, is_again=is_again)
        self._slots.advance()

    def on_setup_failed(self, error: str) -> None:
        """Fail what waits for a worker that will not serve."""
        self._slots.fail_waiting(f"Setup failed: {error}")

    def on_run_report(self, worker: Worker, report: RunReport) -> None:
        """Apply a report to its prediction, unless that has ended."""
        prediction = worker.running.get(report.id)
        if prediction is None:
            return
        if isinstance(report, Output):
            prediction.add_output(report.chunk)
            self._recorder.on_output(prediction)
        elif isinstance(report, Log):
            prediction.add_log(report.source, report.data)
            self._recorder.on_log(prediction)
        elif isinstance(report, Metric):
            value = prediction.add_metric(report.name, report.value, report.mode)
            self._observer.on_metric(prediction, report.name, value)
        else:
            worker.process.crashes.forgive()
            self._end(prediction, report)

    def on_exit(self, worker: Worker, cause: str) -> None:
        """Fail what ran in a worker that is gone, unless it may run again."""
        if worker.process.state in ("crashed", "defunct"):
            self._observer.crashed()
        for prediction in reversed(list(worker.running.values())):
            self._end_or_requeue(worker, prediction, cause)
        self._slots.fail_waiting_if_given_up()
        if self._slots.waiting:
            worker.start()  # they came between its failure and its end

    def _end_or_requeue(self, worker: Worker, prediction: Prediction, cause: str) -> None:
        prediction.crashes += not worker.process.was_replaced
        if prediction.is_cancelled:
            self._end(prediction, Finished(prediction.id, "canceled"))
        elif prediction.crashes >= _MOST_CRASHES:
            log.error("prediction quarantined", prediction_id=prediction.id, cause=cause)
            error = (
                f"Worker crashed: the model process {cause}, {_MOST_CRASHES} times while this "
                "prediction ran. It is quarantined: it does not run again, `retries` or not."
            )
            self._end(prediction, Finished(prediction.id, "failed", error=error))
        elif prediction.retries_left:
            del worker.running[prediction.id]
            prediction.begin_again()
            self._slots.requeue(prediction)
        else:
            error = f"Worker crashed: the model process {cause}"
            self._end(prediction, Finished(prediction.id, "failed", error=error))

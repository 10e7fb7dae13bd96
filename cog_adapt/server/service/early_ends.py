"""Ends predictions early: at their deadline, and in a worker that ignores a cancel."""

import asyncio
from collections.abc import Callable, Sequence

import structlog

from cog_adapt.server.service.prediction import Prediction, now
from cog_adapt.server.service.worker import Worker

log = structlog.get_logger()


def insist_later(prediction: Prediction, workers: Sequence[Worker], seconds: float) -> None:
    """End the worker of a cancelled prediction, unless the prediction ends in time."""

    def insist() -> None:
        for worker in workers:
            if prediction.run_id in worker.running:
                log.error("cancel had no effect", prediction_id=prediction.id, seconds=seconds)
                worker.replace(
                    "was killed, because a cancelled prediction in it did not end within "
                    f"{seconds:g} s (CANCEL_GRACE_SECONDS)"
                )

    timer = asyncio.get_running_loop().call_later(seconds, insist)
    prediction.done.add_done_callback(lambda _: timer.cancel())


def cancel_at_deadline(prediction: Prediction, cancel: Callable[[str, str], object]) -> None:
    """Cancel a prediction when its time is over, unless it has ended before.

    The time, `Cancel-After`, counts from its acceptance by the first server.
    """
    if prediction.request.timeout is None:
        return
    before = (now() - prediction.created_at).total_seconds()  # negative if the clock was set back
    left = prediction.request.timeout - max(0.0, before)
    loop = asyncio.get_running_loop()
    timer = loop.call_later(max(0.0, left), cancel, prediction.id, prediction.request.owner)
    prediction.done.add_done_callback(lambda _: timer.cancel())

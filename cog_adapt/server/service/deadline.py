"""The deadline of a prediction: `Cancel-After`, counted from its acceptance by whatever server."""

import asyncio
from collections.abc import Callable

from cog_adapt.server.service.prediction import Prediction, now


def cancel_at_deadline(prediction: Prediction, cancel: Callable[[str], object]) -> None:
    """Cancel a prediction when its time is over, unless it has ended before."""
    if prediction.request.timeout is None:
        return
    left = prediction.request.timeout - (now() - prediction.created_at).total_seconds()
    loop = asyncio.get_running_loop()
    timer = loop.call_later(max(0.0, left), cancel, prediction.id)
    prediction.done.add_done_callback(lambda _: timer.cancel())

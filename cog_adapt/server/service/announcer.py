"""Calls webhooks while predictions run; the recorder calls them when a prediction ends."""

import asyncio
import time

from cog_adapt.server.protocol import Kind
from cog_adapt.server.service.mapping import webhook_body
from cog_adapt.server.service.observer import Observer
from cog_adapt.server.service.prediction import Prediction
from cog_adapt.server.webhooks import Announcement, LogThrottle, Webhooks

_LARGE = 2**16  # bytes


class _Tracking:
    """The time of the last call of a prediction's webhook, and the timer of a due `logs`."""

    def __init__(self, throttle: LogThrottle) -> None:
        self.throttle = throttle
        self.late_logs: asyncio.TimerHandle | None = None


class Announcer:
    """Sends `start`, `output` and `logs` to the webhooks of predictions.

    Args:
        webhooks: sends events.
        observer: gives the trace headers of webhooks.
        log_interval: seconds between two `logs` webhooks.
    """

    def __init__(self, webhooks: Webhooks, observer: Observer, log_interval: float) -> None:
        self._webhooks = webhooks
        self._observer = observer
        self._log_interval = log_interval
        self._tracking: dict[tuple[Kind, str, str], _Tracking] = {}

    def follow(self, prediction: Prediction) -> None:
        """Start announcing an accepted prediction that has a webhook."""
        tracking = _Tracking(LogThrottle(self._log_interval))
        self._tracking[prediction.key] = tracking

    def announce(self, prediction: Prediction, event: str) -> None:
        """Send an event that the prediction's webhook wants."""
        request = prediction.request
        self._tracking[prediction.key].throttle.note(time.monotonic())
        body, headers = webhook_body(prediction), self._observer.headers(prediction)
        url, owner = request.webhook or "", request.owner
        self._webhooks.announce(
            Announcement(
                kind=request.kind,
                record_id=request.id,
                event=event,
                url=url,
                body=body,
                headers=headers,
                owner=owner,
            )
        )

    def announce_output(self, prediction: Prediction) -> None:
        """Send `output`; of large outputs at most one in the interval of `logs`.

        Each call carries the whole output: one call for each of many items would grow
        quadratically.
        """
        tracking = self._tracking.get(prediction.key)
        is_large = prediction.answer_bytes > _LARGE
        if tracking is None or (is_large and not tracking.throttle.is_due(time.monotonic())):
            return
        self.announce(prediction, "output")

    def announce_logs(self, prediction: Prediction) -> None:
        """Send `logs`, now or when the interval since the last event is over."""
        tracking = self._tracking.get(prediction.key)
        if tracking is None or tracking.late_logs is not None:
            return
        if tracking.throttle.is_due(time.monotonic()):
            self.announce(prediction, "logs")
        else:
            tracking.late_logs = asyncio.get_running_loop().call_later(
                self._log_interval, self._announce_late, prediction, tracking
            )

    def forget(self, prediction: Prediction) -> None:
        """Stop sending for a prediction."""
        tracking = self._tracking.pop(prediction.key, None)
        if tracking is not None and tracking.late_logs is not None:
            tracking.late_logs.cancel()

    def _announce_late(self, prediction: Prediction, tracking: _Tracking) -> None:
        tracking.late_logs = None
        if not prediction.is_final:
            self.announce(prediction, "logs")

"""Serves predictions and trainings; finds the dispatcher of a kind and the runs in flight."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from cog_adapt.server.protocol import Described, Kind
from cog_adapt.server.records import Records
from cog_adapt.server.schema.validation import InputValidator
from cog_adapt.server.service.dispatcher import Dispatcher
from cog_adapt.server.service.event_cache import CachedEvents
from cog_adapt.server.service.prediction import Prediction
from cog_adapt.server.service.recorder import PredictionRecorder
from cog_adapt.server.service.recovery import Recovery
from cog_adapt.server.service.work_sharing import WorkSharing
from cog_adapt.server.service.worker import Worker
from cog_adapt.server.settings import Settings

NOT_SET_UP = (
    "Setup has not finished yet. Wait until it has finished, or GET /health-check for status."
)
_WHY_NOT_READY = {
    "setup failed": "Setup has failed, so nothing can run. The reason is in setup.logs of "
    "GET /health-check; correct it, and start the server again.",
    "defunct": "The model process has died too often, so nothing can run now; it is tried again. "
    "The reason is in last_crash of GET /health-check; correct it, or send the request again "
    "later.",
}
COMPONENTS: dict[Kind, str] = {"predict": "Input", "train": "TrainingInput"}


class PredictionService:
    """The dispatchers of predictions and trainings, and the parts they share.

    Args:
        dispatchers: by kind; a server that only trains has no dispatcher for predictions.
        mode: the kind whose worker starts with the server, and whose health is the server's.
        records: the database.
        recorder: records the changes of predictions.
        settings: limits.
    """

    def __init__(
        self,
        dispatchers: dict[Kind, Dispatcher],
        mode: Kind,
        records: Records,
        recorder: PredictionRecorder,
        settings: Settings,
    ) -> None:
        self.dispatchers = dispatchers
        self.mode = mode
        self.settings = settings
        self.records = records
        self.recorder = recorder
        self.main = dispatchers[mode]
        for dispatcher in dispatchers.values():
            if dispatcher is not self.main and not settings.strict_cog:
                dispatcher.join(self.main)
        self._sharing = WorkSharing(dispatchers, records.peers, self._may_begin, self.main)
        self._recovery = Recovery(
            dispatchers=dispatchers,
            records=records,
            recorder=recorder,
            is_possible=self._may_run,
            sharing=self._sharing,
        )
        self._document: dict[str, Any] = {}
        self._validators: dict[str, InputValidator] = {}
        self._draining: asyncio.Task[None] | None = None

    @property
    def worker(self) -> Worker:
        """The worker whose health the server reports as its own."""
        return self.main.lead

    @property
    def workers(self) -> Sequence[Worker]:
        """The workers that start with the server."""
        return self.main.workers

    @property
    def is_ready(self) -> bool:
        """Whether a setup has succeeded, now or before a crash that its worker recovers from."""
        return any(worker.is_usable for worker in self.workers)

    @property
    def why_not_ready(self) -> str:
        """The reason to refuse a request while no run can start."""
        if self.is_closing:
            return "The server is shutting down. Send the request again when it has restarted."
        return _WHY_NOT_READY.get(self.worker.state, NOT_SET_UP)

    @property
    def is_closing(self) -> bool:
        """Whether the server has stopped accepting requests."""
        return self._draining is not None

    def _may_run(self) -> bool:
        return self.worker.state not in ("setup failed", "defunct")

    def _may_begin(self) -> bool:
        return self.worker.state == "ready" and not self.is_closing

    def open(self) -> None:
        """Start the worker, and take over the predictions of dead servers."""
        self.main.start()
        self._recovery.start()

    def dispatcher(self, kind: Kind) -> Dispatcher | None:
        """Return the dispatcher of a kind; None if there is no code of that kind."""
        if self.settings.strict_cog and self.mode == "train":
            return self.main  # in this mode Cog's server trains on any path
        return self.dispatchers.get(kind)

    def find(
        self, prediction_id: str, kind: Kind | None = None, owner: str = ""
    ) -> Prediction | None:
        """Return the run in flight under an owner's id; of any kind, unless one is given."""
        for each, dispatcher in self.dispatchers.items():
            found = dispatcher.find(prediction_id, owner) if kind in (None, each) else None
            if found is not None:
                return found
        return None

    async def find_here(
        self, prediction_id: str, kind: Kind | None = None, owner: str = ""
    ) -> Prediction | None:
        """Return the same, unless it waits and another server has taken it just now.

        Raises:
            StorageError: the database cannot be used.
        """
        found = self.find(prediction_id, kind, owner)
        if found is None or not found.request.movable or found.started_at is not None:
            return found
        await self._sharing.drop_moved([found])
        return self.find(prediction_id, kind, owner)

    async def drop_taken(self) -> None:
        """Drop and cancel what other servers have taken while this one was taken for dead.

        Raises:
            StorageError: the database cannot be used.
        """
        await self._sharing.drop_taken()

    def find_cached(self, prediction_id: str, kind: Kind, owner: str = "") -> CachedEvents | None:
        """Return the events of a recently ended run under an owner's id."""
        dispatcher = self.dispatchers.get(kind)
        return dispatcher.event_cache.get(prediction_id, owner) if dispatcher else None

    def cancel(self, prediction_id: str, owner: str = "") -> bool:
        """Cancel the run with this owner's id; return whether one was queued or running."""
        return any([each.cancel(prediction_id, owner) for each in self.dispatchers.values()])

    def schema(self) -> dict[str, Any]:
        """Return the predictor's OpenAPI document; an empty one before the predictor is loaded."""
        if not self._document and self.description is not None:
            self._document = msgspec.json.decode(self.description.schema)
        return self._document

    @property
    def description(self) -> Described | None:
        """The facts from the predictor's code, by the first worker that has loaded the code."""
        found = (worker.description for worker in self.workers)
        return next((each for each in found if each is not None), None)

    def validator(self, kind: Kind) -> InputValidator:
        """Return the validator for inputs of a kind.

        Raises:
            KeyError: the predictor has none of this kind.
        """
        component = COMPONENTS[kind]
        if component not in self._validators:
            self._validators[component] = InputValidator(
                self.schema(),
                component,
                self.settings.max_string_length,
                takes_unknown=self.settings.strict_cog,
            )
        return self._validators[component]

    def drain(self, seconds: float | None) -> None:
        """Stop accepting requests, and let the runs in flight end; `close` waits for them.

        Args:
            seconds: afterwards running predictions fail, and waiting ones stay for the next start;
                None: no limit.
        """
        if self._draining is None:
            self._draining = asyncio.get_running_loop().create_task(self._drain(seconds))

    async def _drain(self, seconds: float | None) -> None:
        self._recovery.stop()
        dispatchers = self.dispatchers.values()
        in_flight = [p.done for each in dispatchers for p in each.predictions.values()]
        try:
            if in_flight and self.is_ready:
                await asyncio.wait(in_flight, timeout=seconds)
        finally:
            for each in dispatchers:
                each.slots.close("The server was shut down before it ended.")

    def give_up(self) -> None:
        """Fail the runs in flight instead of waiting for them."""
        if self._draining is None:
            self.drain(0)
        else:
            self._draining.cancel()

    async def close(self, seconds: float | None) -> None:
        """Drain, unless that has begun, and stop the workers; every run gets an end.

        Args:
            seconds: of `drain`.
        """
        self.drain(seconds)
        if self._draining is not None:
            await asyncio.wait({self._draining})
        workers = [worker for each in self.dispatchers.values() for worker in each.workers]
        await asyncio.gather(*(worker.stop() for worker in workers))
        await self.recorder.flush()

"""Serves predictions and trainings: finds the dispatcher of a kind, and what is in flight."""

import asyncio
from typing import Any

import msgspec
import structlog

from cog_adapt.server.api.body import Refused
from cog_adapt.server.errors import StorageError
from cog_adapt.server.protocol import Kind
from cog_adapt.server.records import Record, Records
from cog_adapt.server.schema.validation import InputValidator
from cog_adapt.server.service.deferred import DeferredCalls
from cog_adapt.server.service.dispatcher import Dispatcher
from cog_adapt.server.service.event_cache import CachedEvents
from cog_adapt.server.service.mapping import to_request
from cog_adapt.server.service.prediction import Prediction
from cog_adapt.server.service.recorder import Recorder
from cog_adapt.server.settings import Settings

NOT_READY = (
    "Setup has not finished yet. Wait until it has finished, or GET /health-check for status."
)
COMPONENTS: dict[Kind, str] = {"predict": "Input", "train": "TrainingInput"}
_TAKE_OVER_SECONDS = 5.0
_WATCH_AFTER = 0.02
log = structlog.get_logger()


class PredictionService:
    """Both dispatchers and what they share.

    Args:
        dispatchers: by kind; a server that only trains has no dispatcher for predictions.
        mode: whose worker starts with the server, and whose health is the server's.

    Attributes:
        watches: begins to look whether a client that waits is still there; most answers are
            out before.
    """

    def __init__(
        self,
        dispatchers: dict[Kind, Dispatcher],
        mode: Kind,
        records: Records,
        recorder: Recorder,
        settings: Settings,
    ) -> None:
        self.dispatchers, self.mode, self.settings = dispatchers, mode, settings
        self.records, self.recorder = records, recorder
        self.main = dispatchers[mode]
        self.document: dict[str, Any] = {}
        self.watches = DeferredCalls(_WATCH_AFTER)
        self._validators: dict[str, InputValidator] = {}
        self._watch: asyncio.Task[None] | None = None
        self._draining: asyncio.Task[None] | None = None

    @property
    def is_closing(self) -> bool:
        """Whether nothing more is accepted."""
        return self._draining is not None

    async def open(self) -> None:
        """Start the worker, and take over what dead servers have left."""
        self.main.start()
        self._watch = asyncio.get_running_loop().create_task(self._take_over_again_and_again())

    def find(self, name: str, kind: Kind | None = None) -> Prediction | None:
        """What is in flight under an id."""
        for each, dispatcher in self.dispatchers.items():
            if kind in (None, each) and name in dispatcher.predictions:
                return dispatcher.predictions[name]
        return None

    def find_cached(self, name: str, kind: Kind) -> CachedEvents | None:
        """What ended lately under an id, with its events."""
        dispatcher = self.dispatchers.get(kind)
        return dispatcher.event_cache.get(name) if dispatcher else None

    def cancel(self, name: str) -> bool:
        """End early what is in flight under an id; whether there was something."""
        return any([dispatcher.cancel(name) for dispatcher in self.dispatchers.values()])

    def dispatcher(self, kind: Kind) -> Dispatcher | None:
        """The dispatcher that serves a kind; its worker is started if it is not yet."""
        if self.settings.strict_cog and self.mode == "train":
            return self.main  # Cog's server in this mode trains, whatever the path
        return self.dispatchers.get(kind)

    @property
    def is_ready(self) -> bool:
        """Whether setup has succeeded, now or before a crash that is being mended."""
        return self.main.process.state in ("ready", "crashed") or (
            self.main.process.state == "starting" and self.main.process.has_been_ready
        )

    def schema(self) -> dict[str, Any]:
        """The OpenAPI document of the model; empty before it is known."""
        description = self.main.description
        if not self.document and description is not None:
            self.document = msgspec.json.decode(description.schema)
        return self.document

    def validator(self, kind: Kind) -> InputValidator:
        """What checks inputs of a kind (KeyError where the model has none such)."""
        component = COMPONENTS[kind]
        if component not in self._validators:
            most = self.settings.max_string_length
            self._validators[component] = InputValidator(self.schema(), component, most)
        return self._validators[component]

    async def _take_over_again_and_again(self) -> None:
        """What dead servers have left is run, or ended with a reason."""
        left: list[Record] = []
        while True:
            try:
                if self.main.process.state not in ("setup failed", "defunct"):
                    left += await self.records.take_over()
                while left:
                    await self._take_over(left[0])
                    del left[0]
            except (StorageError, Refused) as error:
                log.warning("cannot go on with what dead servers left", error=str(error))
            await asyncio.sleep(_TAKE_OVER_SECONDS)

    async def _take_over(self, record: Record) -> None:
        dispatcher, request = self.dispatchers.get(record.kind), to_request(record)
        was_running = record.status == "processing"
        log.info("taken over", prediction_id=record.id, status=record.status)
        if self.find(record.id, record.kind) is not None:
            return  # its end replaces this record
        if dispatcher is None or request is None or (was_running and not record.retries_left):
            why = "while it ran" if was_running else "before it ran, and cannot be repeated"
            await self.recorder.fail_orphan(record, f"The server ended {why}.")
            return
        if was_running:
            request = msgspec.structs.replace(request, retries=record.retries_left - 1)
        dispatcher.start()
        await dispatcher.submit(request, is_recovered=True)

    def drain(self, seconds: float | None) -> None:
        """Accept nothing more, and let what is in flight end; `close` waits for it.

        Args:
            seconds: after them what runs is failed, and what waits is left for the next start;
                None: no limit.
        """
        if self._draining is None:
            self._draining = asyncio.get_running_loop().create_task(self._drain(seconds))

    async def _drain(self, seconds: float | None) -> None:
        if self._watch is not None:
            self._watch.cancel()
        in_flight = [
            p.done
            for dispatcher in self.dispatchers.values()
            for p in dispatcher.predictions.values()
        ]
        try:
            if in_flight and self.is_ready:
                await asyncio.wait(in_flight, timeout=seconds)
        finally:
            for dispatcher in self.dispatchers.values():
                dispatcher.give_up("The server was shut down before it ended.")

    def give_up(self) -> None:
        """Drain no longer."""
        if self._draining is None:
            self.drain(0)
        else:
            self._draining.cancel()

    async def close(self, seconds: float | None) -> None:
        """Drain, unless that has begun, and end the workers; nothing stays without an end.

        Args:
            seconds: of `drain`.
        """
        self.drain(seconds)
        if self._draining is not None:
            await asyncio.wait({self._draining})
        await asyncio.gather(
            *(dispatcher.process.stop() for dispatcher in self.dispatchers.values())
        )
        await self.recorder.flush()

"""Gives the adapter of a training the name in the training's destination."""

import asyncio

import structlog

from cog_adapt.server.errors import RequestError
from cog_adapt.server.protocol import Kind
from cog_adapt.server.records import Record
from cog_adapt.server.service.adapters import AdapterService
from cog_adapt.server.service.mapping import to_record
from cog_adapt.server.service.platform_form import trained_adapter
from cog_adapt.server.service.prediction import Prediction

log = structlog.get_logger()


class AdapterNaming:
    """Waits for the ends of trainings; a server that is restarted in between names nothing."""

    def __init__(self) -> None:
        self._tasks: dict[tuple[Kind, str, str], asyncio.Task[None]] = {}

    def watch(self, training: Prediction, adapters: AdapterService, destination: str) -> None:
        """Name the adapter when a training has ended.

        Args:
            training: in flight.
            adapters: of the predictor.
            destination: `owner/name`.
        """
        name = destination.partition("/")[2]
        task = asyncio.get_running_loop().create_task(_name(training, adapters, name))
        self._tasks[training.key] = task
        task.add_done_callback(lambda _: self._tasks.pop(training.key, None))

    async def settle(self, record: Record) -> None:
        """Wait until the adapter of an ended training has its name."""
        task = self._tasks.get((record.kind, record.id, record.owner))
        if task is not None and record.is_finished:
            await asyncio.wait({task})


async def _name(training: Prediction, adapters: AdapterService, name: str) -> None:
    await asyncio.wait({training.done})
    record = to_record(training)
    made = trained_adapter(record)
    if record.status != "succeeded" or made is None:
        return
    try:
        for adapter in await adapters.find_own(record.owner, made):
            await adapters.change(adapter, {"name": name})
    except RequestError as error:
        log.warning("a trained adapter has no name", adapter=made, name=name, error=str(error))

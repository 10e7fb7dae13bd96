"""Gives the adapter of a training the name in the training's destination."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import structlog

from cog_adapt.server.errors import RequestError
from cog_adapt.server.protocol import Kind
from cog_adapt.server.records import Record
from cog_adapt.server.service.adapters import AdapterService
from cog_adapt.server.service.mapping import to_record
from cog_adapt.server.service.platform_form import trained_adapter
from cog_adapt.server.service.prediction import Prediction

_Key = tuple[Kind, str, str]
_MOST_SETTLED = 1000
log = structlog.get_logger()


class AdapterNaming:
    """Names the adapters of trainings: at their ends, or when a client reads an ended one.

    The latter gives the name of a training whose server was restarted before its end.
    """

    def __init__(self) -> None:
        self._tasks: dict[_Key, asyncio.Task[None]] = {}
        self._settled: dict[_Key, None] = {}  # in order; the oldest are dropped

    def watch(self, training: Prediction, adapters: AdapterService, destination: str) -> None:
        """Name the adapter when a training has ended.

        Args:
            training: in flight.
            adapters: of the predictor.
            destination: `owner/name`.
        """
        self._start(training.key, _name_at_end(training, adapters, destination))

    async def settle(
        self, record: Record, adapters: AdapterService, destination: str | None
    ) -> None:
        """Wait until the adapter of an ended training has its name; a name that it has stays."""
        key = (record.kind, record.id, record.owner)
        if not record.is_finished or destination is None:
            return
        if key not in self._tasks and key not in self._settled:
            self._start(key, _name(record, adapters, destination, if_none=True))
        if key in self._tasks:
            await asyncio.wait({self._tasks[key]})

    def _start(self, key: _Key, naming: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(naming)
        self._tasks[key] = task
        task.add_done_callback(lambda _: self._end(key))

    def _end(self, key: _Key) -> None:
        self._tasks.pop(key, None)
        self._settled[key] = None
        while len(self._settled) > _MOST_SETTLED:
            del self._settled[next(iter(self._settled))]


async def _name_at_end(training: Prediction, adapters: AdapterService, destination: str) -> None:
    await asyncio.wait({training.done})
    await _name(to_record(training), adapters, destination)


async def _name(
    record: Record, adapters: AdapterService, destination: str, *, if_none: bool = False
) -> None:
    made, name = trained_adapter(record), destination.partition("/")[2]
    if record.status != "succeeded" or made is None:
        return
    try:
        found = await adapters.find_own(record.owner, made)
        for adapter in [each for each in found if not (if_none and each["name"])]:
            await adapters.change(adapter, {"name": name})
    except RequestError as error:
        log.warning("a trained adapter has no name", adapter=made, name=name, error=str(error))

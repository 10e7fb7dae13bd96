"""Forgets ended predictions and trainings, with everything that this server keeps of them.

Counters, log lines that name an id, and data sent to others remain.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import msgspec
import structlog

from cog_adapt.server.errors import NotEnded, NotFound
from cog_adapt.server.protocol import NOUNS, Kind
from cog_adapt.server.records import Record
from cog_adapt.server.service.service import PredictionService
from cog_adapt.server.webhooks import Webhooks

log = structlog.get_logger()


class AdapterKeeper(Protocol):
    """The adapters that the predictor keeps (docs/predictor-protocol.md)."""

    async def find_own(self, owner: str, adapter_id: str | None = None) -> Sequence[dict[str, Any]]:
        """Return the metadata of an owner's own adapters, of one or of all."""

    async def remove(self, adapter: dict[str, Any]) -> object:
        """Remove the adapter with this metadata."""

    async def forget(self, owner: str, key: str = "") -> None:
        """Drop cached adaptations without an adapter: of one key, or all."""

    async def reach_all(self) -> None:
        """Return when no living server uses what was removed or dropped."""


class ForgetResult(msgspec.Struct, kw_only=True):
    """The result of forgetting.

    Attributes:
        predictions: their number.
        trainings: their number.
        adapters: made by these: `removed`, or the reason to keep it, by id.
    """

    predictions: int = 0
    trainings: int = 0
    adapters: dict[str, str] = {}


def not_ended(kind: Kind, prediction_id: str) -> NotEnded:
    """Return the refusal to forget a run that has not ended."""
    return NotEnded(f"{NOUNS[kind]} {prediction_id[:80]!r} has not ended. Cancel it first.")


class Forgetting:
    """Removes a server's data about runs.

    Args:
        service: knows the runs in flight and the records.
        webhooks: may have webhooks to send.
        adapters: the predictor's.
    """

    def __init__(
        self, service: PredictionService, webhooks: Webhooks, adapters: AdapterKeeper
    ) -> None:
        self._service = service
        self._webhooks = webhooks
        self._adapters = adapters

    async def forget(self, prediction_id: str, kind: Kind, owner: str) -> ForgetResult:
        """Forget an ended run.

        Raises:
            NotFound: there is none.
            NotEnded: the run has not ended.
        """
        noun = NOUNS[kind]
        running = self._service.find(prediction_id, kind, owner)
        record = await self._service.records.get(prediction_id, kind, owner)
        if running is not None or (record is not None and not record.is_finished):
            raise not_ended(kind, prediction_id)
        if record is None:
            raise NotFound(f"there is no {noun} {prediction_id[:80]!r}.")
        adapters = await self._remove_adapters(record)
        await self._forget_decision(record)
        await self._adapters.reach_all()
        done = await self._service.records.forget(kind, owner, prediction_id)
        if done.unfinished:
            raise NotEnded(f"{noun} {prediction_id[:80]!r} has begun again. Cancel it first.")
        self._drop(kind, owner, prediction_id)
        log.info("forgotten", owner=owner, kind=kind, prediction_id=prediction_id)
        return ForgetResult(**{f"{noun}s": done.removed}, adapters=adapters)

    async def forget_all(self, owner: str, kinds: Iterable[Kind]) -> ForgetResult:
        """Forget all runs of an owner of these kinds; after an error, repeat for the rest.

        Raises:
            NotEnded: one of them has not ended; none of its kind was removed.
        """
        forgotten = ForgetResult()
        for kind in kinds:
            self._refuse_running(kind, owner)
            done = await self._service.records.forget(kind, owner)
            if done.unfinished:
                raise _not_ended(done.unfinished, kind, owner)
            self._drop(kind, owner)
            setattr(forgotten, f"{NOUNS[kind]}s", done.removed)
            if kind == "predict":  # the scope that opens adapters
                forgotten.adapters = await self._remove_all_adapters(owner)
                await self._adapters.reach_all()
        log.info("forgotten", owner=owner, kind="all", records=forgotten)
        return forgotten

    def _refuse_running(self, kind: Kind, owner: str) -> None:
        dispatcher = self._service.dispatchers.get(kind)
        names = dispatcher.predictions if dispatcher else ()
        running = sum(whose == owner for _, _, whose in names)
        if running:
            raise _not_ended(running, kind, owner)

    def _drop(self, kind: Kind, owner: str, prediction_id: str | None = None) -> None:
        """Drop events and webhooks from memory."""
        dispatcher = self._service.dispatchers.get(kind)
        if dispatcher is not None:
            dispatcher.event_cache.drop(owner, prediction_id)
        self._webhooks.drop(kind, owner, prediction_id)

    async def _remove_adapters(self, record: Record) -> dict[str, str]:
        return {
            adapter_id: await self._remove_adapter(adapter_id, record)
            for adapter_id in made_adapters(record)
        }

    async def _remove_all_adapters(self, owner: str) -> dict[str, str]:
        """Remove all adapters of an owner, including named, pinned and shared ones."""
        removed: dict[str, str] = {}
        for adapter in await self._adapters.find_own(owner):
            removed[adapter["id"]] = await _remove(self._adapters, adapter)
        await self._adapters.forget(owner)
        return removed

    async def _forget_decision(self, record: Record) -> None:
        """Drop the decision that the base answers best, unless another record refers to it."""
        key = decision_of(record)
        if key is not None and not await self._service.records.is_mentioned(key, record):
            await self._adapters.forget(record.owner, key)

    async def _remove_adapter(self, adapter_id: str, record: Record) -> str:
        """Remove an adapter that no other record refers to; return `removed`, or why it stays."""
        found = await self._adapters.find_own(record.owner, adapter_id)
        if not found:
            return "gone before"
        (adapter,) = found
        for reason in ("name", "pinned", "shared"):
            if adapter.get(reason):
                return f"kept: {'named' if reason == 'name' else reason}"
        is_used = await self._service.records.is_mentioned(adapter_id, record)
        if is_used or self._is_asked_for(adapter_id, record.owner):
            return "kept: another prediction made or uses it"
        return await _remove(self._adapters, adapter)

    def _is_asked_for(self, adapter_id: str, owner: str) -> bool:
        word = adapter_id.encode()
        return any(
            prediction.request.owner == owner and word in prediction.request.input
            for dispatcher in self._service.dispatchers.values()
            for prediction in dispatcher.predictions.values()
        )


async def _remove(keeper: AdapterKeeper, adapter: dict[str, Any]) -> str:
    try:
        await keeper.remove(adapter)
    except NotFound:  # the command line, which works on the files, removed the adapter
        return "gone before"
    return "removed"


def made_adapters(record: Record) -> list[str]:
    """Return the ids of the adapters that a prediction has made, as its record names them.

    Adapters that were reused count too: this record may be the last one that refers to them.
    """
    measured = msgspec.json.decode(record.metrics).get("adaptation")
    if not isinstance(measured, dict) or not {"step", "receipt"} & measured.keys():
        return []  # a prediction without an adaptation used one adapter at most
    output = msgspec.json.decode(record.output or "null")
    found = [measured.get("adapter"), output.get("adapter") if isinstance(output, dict) else None]
    return sorted({each for each in found if isinstance(each, str) and each})


def decision_of(record: Record) -> str | None:
    """Return the key of an adaptation that made no adapter, or None."""
    measured = msgspec.json.decode(record.metrics).get("adaptation")
    receipt = measured.get("receipt") if isinstance(measured, dict) else None
    if not isinstance(receipt, dict) or receipt.get("adapter") is not None:
        return None
    key = receipt.get("key")
    return key if isinstance(key, str) and key else None


def _not_ended(count: int, kind: Kind, owner: str) -> NotEnded:
    return NotEnded(f"{count} {NOUNS[kind]}s of {owner!r} have not ended. Cancel them first.")

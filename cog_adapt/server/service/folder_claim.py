"""Lets the servers of one PostgreSQL serve adapters of one folder alone, if of any folder."""

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from cog_adapt.server.errors import ConfigError, StorageError
from cog_adapt.server.records import AdapterFolder
from cog_adapt.server.service.service import PredictionService

_LOOK_SECONDS: Final = 0.05
_RETRY_SECONDS: Final = 5.0
log = structlog.get_logger()


async def claim_folder(service: PredictionService, refuse: Callable[[str], None]) -> None:
    """Refuse to serve beside a server that keeps its adapters in another folder.

    Args:
        service: of this server; the wait for its worker's setup comes first.
        refuse: ends the server, with a reason.
    """
    worker = service.worker
    while worker.ready is None:
        await asyncio.sleep(_LOOK_SECONDS)
    if worker.ready.adapter_folder is None:
        return
    folder, is_known = AdapterFolder(*worker.ready.adapter_folder), False
    while not is_known:
        try:
            await service.records.claim_folder(folder)
            is_known = True
        except ConfigError as error:
            refuse(str(error))
            return
        except StorageError as error:
            log.warning("other servers' folders of adapters are not known", error=str(error))
            await asyncio.sleep(_RETRY_SECONDS)

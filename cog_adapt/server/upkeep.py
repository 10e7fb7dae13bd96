"""What a server does now and then, beside its requests."""

import asyncio
import contextlib
from datetime import timedelta

import structlog

from cog_adapt.server.errors import StorageError
from cog_adapt.server.files.temp_files import remove_old_temp_files
from cog_adapt.server.files.upload_rows import uploads_of
from cog_adapt.server.records import Records
from cog_adapt.server.service.health import HealthMonitor
from cog_adapt.server.settings import Settings

_PRUNE_SECONDS = 600.0
_LEAST_PRUNE_SECONDS = 5.0
_LOOK_SECONDS = 2.0
log = structlog.get_logger()


async def prune_now_and_then(records: Records, settings: Settings) -> None:
    """Periodically delete records and files that are too old, or too many."""
    while True:
        try:
            age = timedelta(days=settings.retention_days)
            await records.prune(age, settings.retention_count)
            await asyncio.to_thread(remove_old_temp_files, settings.temp_file_days)
            await asyncio.to_thread(uploads_of(settings).prune)
        except (StorageError, OSError) as error:
            log.warning("what is old cannot be deleted", error=str(error))
        await _until_low(records)
        await asyncio.sleep(_LEAST_PRUNE_SECONDS)


async def _until_low(records: Records) -> None:
    """Wait for a while, or until the disk is nearly full."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_PRUNE_SECONDS):
            await records.space.low.wait()


async def tell_kubernetes(monitor: HealthMonitor) -> None:
    """Look at the server's health now and then: each look updates the file that a probe reads."""
    while True:
        await monitor.report()
        await asyncio.sleep(_LOOK_SECONDS)

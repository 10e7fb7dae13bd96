"""A server to be killed: saves until then, and tells what is committed."""

import asyncio
import itertools
import sys
from datetime import UTC, datetime
from pathlib import Path

from cog_adapt.server.records import Record, Records


async def save_for_ever(folder: str, name: str, url: str | None = None) -> None:
    records = Records.open(url, Path(folder))
    await records.register()
    for number in itertools.count():
        record = Record(
            id=f"{name}-{number}",
            kind="predict",
            status="starting",
            created_at=datetime.now(UTC),
            payload='{"n":1}',
        )
        records.save(record)
        await records.save_durably(record)
        sys.stdout.write(f"{record.id}\n")
        sys.stdout.flush()


asyncio.run(save_for_ever(*sys.argv[1:]))

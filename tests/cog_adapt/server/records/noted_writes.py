"""A writer without a database: each transaction is noted."""

import asyncio
import threading
import time
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any

from cog_adapt.server.errors import StorageError
from cog_adapt.server.records.writer import Writer

DOWN = StorageError("down")


class Notes(Any):
    """In place of `Transactions`: notes what is written, and fails when it is to."""

    def __init__(self):
        self.error = None
        self.fault = None
        self.refused = {}
        self.stored = []
        self.times = []
        self.open = threading.Event()
        self.open.set()
        self.entered = threading.Event()

    def store(self, changes):
        self.entered.set()
        self.open.wait(10)
        self.times.append(time.monotonic())
        self.error = self.fault and str(self.fault)
        if self.fault:
            return {}, self.fault
        self.stored.append(
            [f"{record.id} {record.status}" for record in changes.records.values()]
            + [delivery.id for delivery in changes.deliveries.values()]
        )
        return self.refused, None

    def run(self, function):
        try:
            return function("connection"), None
        except ValueError as error:
            return None, error


@asynccontextmanager
async def writing(last=lambda connection: None):
    notes = Notes()
    writer = Writer(notes)
    async with asyncio.timeout(20):
        yield writer, notes
        await writer.close(last)


def with_writer(test):
    """Calls an async test with a writer and the notes of what it wrote."""

    @wraps(test)
    def run():
        async def story():
            async with writing() as pair:
                await test(*pair)

        asyncio.run(story())

    del run.__wrapped__  # pytest would ask it for fixtures
    return run

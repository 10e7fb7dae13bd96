"""Where a test's records are, and how it makes some."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, create_engine

from cog_adapt.server.records import Delivery, Record, Records

START = datetime(2026, 11, 20, 12, 0, 0, 5, UTC)


class Home:
    """A database and a folder; the servers of a test share them."""

    def __init__(self, url: str | None, folder: Path) -> None:
        self.url = url
        self.folder = folder

    @asynccontextmanager
    async def opened(self, **settings: Any) -> AsyncIterator[Records]:
        """A server's records."""
        records = Records.open(self.url, self.folder, **settings)
        try:
            await records.register()
            yield records
        finally:
            await records.close()

    @contextmanager
    def connected(self) -> Iterator[Connection]:
        """The database without this project's code."""
        url = (self.url or f"sqlite:///{self.folder}/records.db").replace(
            "postgresql:", "postgresql+psycopg:"
        )
        engine = create_engine(url)
        with engine.begin() as connection:
            yield connection
        engine.dispose()

    def texts(self) -> list[str]:
        """The large texts that are kept outside of their rows."""
        if self.url is None:
            return [file.read_text() for file in (self.folder / "blobs").iterdir()]
        with self.connected() as connection:
            found = connection.exec_driver_sql("SELECT content FROM blobs").scalars()
            return [bytes(content).decode() for content in found]

    def make_texts_old(self) -> None:
        """As if nobody had written one for years."""
        if self.url is None:
            for file in (self.folder / "blobs").iterdir():
                os.utime(file, (0, 0))
            return
        with self.connected() as connection:
            connection.exec_driver_sql("UPDATE blobs SET changed_at = '1970-01-01'")

    def cut_texts(self) -> None:
        """As a disk does that loses the end of what was written."""
        if self.url is None:
            for file in (self.folder / "blobs").iterdir():
                file.write_text("cut")
            return
        with self.connected() as connection:
            connection.exec_driver_sql("UPDATE blobs SET content = 'cut'")

    def start_crashing_server(self, name: str) -> "subprocess.Popen[str]":
        """A server that saves `name-0`, `name-1`, … and tells each that is committed."""
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.cog_adapt.server.records.crashing_server",
                str(self.folder),
                name,
            ]
            + ([self.url] if self.url else []),
            stdout=subprocess.PIPE,
            text=True,
        )


def make_record(number: int = 0, **values: Any) -> Record:
    """Each number is a second later."""
    kept: dict[str, Any] = {"kind": "predict", "status": "succeeded", "id": f"r{number}"} | values
    kept.setdefault("created_at", START + timedelta(seconds=number))
    return Record(**kept)


def make_delivery(number: int = 0, **values: Any) -> Delivery:
    """Of the record of the same number; due at once."""
    created = START + timedelta(seconds=number)
    kept: dict[str, Any] = {
        "id": f"d{number}",
        "record_id": f"r{number}",
        "kind": "predict",
        "event": "completed",
        "url": "https://example.com/hook",
        "body": '{"status":"succeeded"}',
        "created_at": created,
        "next_attempt_at": created,
    }
    return Delivery(**(kept | values))

"""Servers of one PostgreSQL that run what a test tells them, for two owners and an admin."""

import contextlib
import hashlib
import http.client
import json
import textwrap
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from bench.postgres import Cluster, find_binaries
from tests.cog_adapt.contract.servers import Server
from tests.cog_adapt.contract.serving import serving
from tests.cog_adapt.waiting import wait_for

KEYS = {"ada-key": "ada predict,train", "bob-key": "bob predict,train", "eve-key": "eve admin"}
ADA, BOB, EVE = ({"Authorization": f"Bearer {key}"} for key in KEYS)
ASYNC = {"Prefer": "respond-async"}
CODE = """
    import asyncio

    import cog
    from cog import BaseRunner, Input


    class Sleeper(BaseRunner):
        async def setup(self) -> None:
            pass

        @cog.streaming
        async def run(
            self, text: str = Input(default="t"), seconds: float = Input(default=0.0)
        ) -> cog.AsyncConcatenateIterator[str]:
            with open("begun", "a") as begun:
                begun.write(f"{text} ")
            print(f"start {text}", flush=True)
            yield text
            await asyncio.sleep(seconds)
            yield "!"

        train = run
"""


class Shared:
    """A database and a folder that servers share."""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        self.folder = folder
        (folder / "sleeper.py").write_text(textwrap.dedent(CODE))
        lines = [f"{who} {hashlib.sha256(key.encode()).hexdigest()}" for key, who in KEYS.items()]
        (folder / "keys").write_text("\n".join(lines))
        self.database = cluster
        self.url = cluster.empty()

    @contextlib.contextmanager
    def servers(self, count: int, **env: str) -> Iterator[list[Server]]:
        """So many servers, ready."""
        known = {"API_KEYS_FILE": str(self.folder / "keys"), "DATABASE_URL": self.url}
        code = "sleeper.py:Sleeper"
        start = partial(
            serving, "mirror", self.folder, predict=code, train=code, env=known | env, until="up"
        )
        with ExitStack() as stack:
            started = [stack.enter_context(start()) for _ in range(count)]
            for each in started:
                wait_for(partial(is_ready, each), 120)
            yield started

    def runs(self, text: str) -> int:
        """How often the predictor has begun with a text."""
        begun = self.folder / "begun"
        return begun.read_text().split().count(text) if begun.exists() else 0

    def sql(self, statement: str, **values: Any) -> list[Any]:
        """Run a statement beside the servers."""
        with psycopg.connect(self.url) as connection:
            done = connection.execute(statement.encode(), values)
            return done.fetchall() if done.description else []


@contextlib.contextmanager
def shared_database(folder: Path) -> Iterator[Shared]:
    """A PostgreSQL of the tests' own; without one they are skipped by name."""
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL: run .ci/postgres")
    cluster = Cluster(binaries)
    try:
        yield Shared(folder, cluster)
    finally:
        cluster.remove()


def is_ready(server: Server) -> bool | None:
    return server.get("/readyz", headers=ADA).status_code == 200 or None


def ask(
    server: Server, method: str, path: str, body: object = None, **headers: str
) -> tuple[int, Any]:
    """Ask as ada over a connection of its own; return status and body."""
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=120)
    sent = ADA | {"Content-Type": "application/json"} | headers
    connection.request(method, path, None if body is None else json.dumps(body), sent)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, json.loads(content) if content else None


def at_once(calls: Sequence[tuple[Any, ...]], **headers: str) -> list[tuple[int, Any]]:
    """Begin all calls at one moment; return their answers."""
    together = threading.Barrier(len(calls))

    def begin(call: tuple[Any, ...]) -> tuple[int, Any]:
        together.wait(60)
        server, method, path, body = call
        return ask(server, method, path, body, **headers)

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(begin, calls))

"""The commands of `docs/backup.md` back a living server up, and restore it elsewhere."""

import hashlib
import os
import re
import subprocess
import textwrap
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx2
import psycopg
import pytest

from bench.postgres import Cluster, find_binaries
from tests.cog_adapt.contract.serving import serving
from tests.cog_adapt.forks import REPOSITORY
from tests.cog_adapt.waiting import wait_for, wait_until

CODE = """
    from cog import BaseRunner

    from cog_adapt import ModelRunner, Recipe, Request, RunnerSettings, answer
    from tests.cog_adapt.models import Letters, examples


    class Learner(BaseRunner):
        def setup(self) -> None:
            self.runner = ModelRunner(Letters(), RunnerSettings.from_environment())

        async def run(self, adapter: str = "", learn: int = 0) -> str:
            if learn:
                rows = examples("letters", seed=learn)
                made = await self.runner.submit_adaptation(rows, Recipe(max_steps=1)).wait_async()
                self.runner.store.put(made.adapter)
                return f"{made.adapter.id} {'x' * 70_000}"
            found = await answer(self.runner, Request(["abc"], adapter=adapter), self.scope)
            return found.adapter
"""
LARGE = 16 + 1 + 70_000
MEANWHILE = 3  # predictions that begin and end between the two steps of a backup
UPLOADED = b"text,label\nlate,delivery\n"


def commands():
    """The three scripts of the document: the database's copy, the files' copy, the restore."""
    page = (REPOSITORY / "docs" / "backup.md").read_text()
    backup, restore = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    database, loop, files = backup.partition("for folder")
    return database, loop + files, restore


DATABASE, FILES, RESTORE = commands()


@dataclass(frozen=True)
class Home:
    """The folders and the database of one server."""

    folder: Path
    database: str = ""

    def variables(self):
        return {
            "DATA_DIR": str(self.folder / "data"),
            "WEIGHTS_DIR": str(self.folder / "weights"),
            "DATABASE_URL": self.database,
        }

    def run(self, script, backup):
        """Run a script of the document as an operator does."""
        own = self.variables() | {"BACKUP": str(backup), "STORE": str(self.folder / "store")}
        done = subprocess.run(
            ["bash", "-euc", script],
            env=os.environ | own,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr

    @contextmanager
    def served(self):
        code = self.folder / "code"
        code.mkdir(parents=True)
        (code / "learner.py").write_text(textwrap.dedent(CODE))
        env = self.variables() | {"ADAPTER_STORE": f"file://{self.folder}/store"}
        with serving("mirror", code, predict="learner.py:Learner", env=env, until="up") as server:
            wait_for(lambda: server.get("/readyz").status_code == 200 or None, 120)
            yield server


class Writing(threading.Thread):
    """Predictions that each store a large output and an adapter, one after the other."""

    def __init__(self, url):
        super().__init__(daemon=True)
        self._url = url
        self._ended = threading.Event()
        self.count = 0

    def run(self):
        with httpx2.Client(base_url=self._url, timeout=60, trust_env=False) as client:
            while not self._ended.is_set():
                path, learn = f"/predictions/w{self.count}", 100 + self.count
                body = client.put(path, json={"input": {"learn": learn}}).json()
                assert body["status"] == "succeeded", body
                self.count += 1

    def wait_for_more(self):
        wanted = self.count + MEANWHILE
        wait_for(lambda: self.count >= wanted or None, 60)

    def end(self):
        self._ended.set()
        self.join(60)


def backed_up(home, backup, steps):
    """Back a server up while it writes, with writes between the steps; return what it answered."""
    with home.served() as server:
        adapters = [
            server.post("/predictions", {"input": {"learn": seed}}).json()["output"].split()[0]
            for seed in (1, 2)
        ]
        for adapter in adapters:
            assert server.client.patch(
                f"{server.url}/adapters/{adapter}", json={"name": "support"}
            ).is_success
        files = {"content": ("rows.csv", UPLOADED, "text/csv")}
        upload = server.client.post(f"{server.url}/v1/files", files=files).json()["id"]
        writing = Writing(server.url)
        writing.start()
        writing.wait_for_more()
        for step in steps:
            home.run(f'mkdir -p "$BACKUP"\n{step}', backup)
            writing.wait_for_more()
        writing.end()
        return adapters, upload


def lost(server):
    """Return the predictions that have succeeded and whose output or adapter is gone."""
    found = server.get("/predictions?limit=1000&status=succeeded").json()["results"]
    assert len(found) > MEANWHILE
    gone = []
    for each in found:
        body = server.get(f"/predictions/{each['id']}").json()
        output = body["output"]  # of a lost file only its name, no text
        is_whole = isinstance(output, str) and len(output) == LARGE
        if not is_whole or server.get(f"/adapters/{output.split()[0]}").status_code != 200:
            gone.append(each["id"])
    return gone


@pytest.fixture(params=["SQLite", "PostgreSQL"])
def databases(request):
    """The URLs of two databases, the second empty; "" is SQLite."""
    if request.param == "SQLite":
        yield "", ""
        return
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL: run .ci/postgres")
    cluster = Cluster(binaries)
    try:
        first = cluster.empty()
        with psycopg.connect(first, autocommit=True) as connection:
            connection.execute("CREATE DATABASE restored")
        yield first, first.replace("/postgres?", "/restored?")
    finally:
        cluster.remove()


def test_what_was_backed_up_while_the_server_wrote_answers_elsewhere(databases, tmp_path):
    here, there = (
        Home(tmp_path / name, url) for name, url in zip(("here", "there"), databases, strict=True)
    )
    adapters, upload = backed_up(here, tmp_path / "backup", (DATABASE, FILES))
    there.run(RESTORE, tmp_path / "backup")
    with there.served() as server:
        # the database may lack the row of the newest adapter, which the start's listing adds
        wait_until(lambda: lost(server) == [], 10)
        for version, adapter in enumerate(adapters, 1):
            assert server.get(f"/adapters/support@v{version}").json()["id"] == adapter
            used = server.post("/predictions", {"input": {"adapter": f"support@v{version}"}})
            assert used.json()["output"] == adapter
        newest = server.get("/adapters?limit=1").json()["results"][0]["id"]
        change = partial(server.client.patch, f"{server.url}/adapters/{newest}")
        assert change(json={"name": "support"}).json()["version"] == len(adapters) + 1
        got = server.get(f"/v1/files/{upload}").json()
        assert got["checksums"]["sha256"] == hashlib.sha256(UPLOADED).hexdigest()


def test_files_before_the_database_lose_what_was_written_between(tmp_path):
    here, there = Home(tmp_path / "here"), Home(tmp_path / "there")
    backed_up(here, tmp_path / "backup", (FILES, DATABASE))
    there.run(RESTORE, tmp_path / "backup")
    with there.served() as server:
        assert len(lost(server)) >= MEANWHILE

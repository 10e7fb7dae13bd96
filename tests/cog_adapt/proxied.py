"""Three servers behind a proxy in place of one, for the suites of clients: `PROXY=haproxy`.

The servers share a private PostgreSQL and the adapters, and each has a data folder of its own.
The proxy sends each request to the next server. `PROXY=relay` needs no HAProxy; without the
variable the suites ask one server.
"""

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest

from bench.postgres import Cluster, find_binaries
from tests.cog_adapt.contract.servers import Server
from tests.cog_adapt.contract.serving import free_port, serving, stop, wait_until
from tests.cog_adapt.forks import REPOSITORY
from tests.cog_adapt.relay import relaying
from tests.cog_adapt.waiting import wait_for

PROXY = os.environ.get("PROXY", "")
COUNT = 3
PAGE = REPOSITORY / "docs" / "many-servers.md"


@dataclass
class Proxied(Server):
    """Servers behind a proxy, asked as one.

    Attributes:
        servers: each by itself.
    """

    servers: list[Server] = field(default_factory=list)

    @property
    def members(self) -> Sequence[Server]:
        """Each server by itself."""
        return self.servers

    def text(self) -> str:
        """What all have written to their logs."""
        return "\n".join(each.text() for each in self.servers)

    def until_idle(self) -> None:
        """Wait until the health of each is READY."""
        for each in self.servers:
            each.until_idle()

    def kept(self) -> list[bytes]:
        """The files of all, and the rows of their database."""
        with psycopg.connect(self.database or "") as connection:
            found = connection.execute(
                "SELECT query_to_xml(format('SELECT * FROM %I', table_name), true, true, '')::text"
                " FROM information_schema.tables WHERE table_schema = 'public'"
            )
            return [*super().kept(), *(table.encode() for (table,) in found)]


@contextlib.contextmanager
def one_or_many(
    folder: Path,
    *,
    env: Mapping[str, str],
    port: int | None = None,
    is_alone: bool = not PROXY,
    **more: Any,
) -> Iterator[Server]:
    """Serve by as many servers as the environment asks for, each of them ready.

    Args:
        folder: where they run.
        env: variables of each.
        port: to listen on; None: a free one.
        is_alone: whether one server is asked, whatever the environment says.
        more: of `serving`.
    """
    if is_alone:
        with serving("mirror", folder, env=env, until="up", port=port, **more) as server:
            _wait_until_ready(server)
            yield server
        return
    with ExitStack() as stack:
        url = stack.enter_context(_database())
        servers = []
        for number in range(COUNT):
            own = {"DATABASE_URL": url, "DATA_DIR": str(folder / f"server-{number}" / ".data")}
            one = serving("mirror", folder, env={**env, **own}, until=None, **more)
            servers.append(stack.enter_context(one))
        for each in servers:
            wait_until(each, "up")
            _wait_until_ready(each)
        first, at = servers[0], port or free_port()
        stack.enter_context(_PROXIES[PROXY](folder, at, [each.port for each in servers]))
        yield Proxied(
            flavour=first.flavour,
            folder=folder,
            url=f"http://127.0.0.1:{at}",
            log=first.log,
            process=first.process,
            client=first.client,
            servers=servers,
            database=url,
        )


def _wait_until_ready(server: Server) -> None:
    wait_for(lambda: server.get("/readyz").is_success or None, 120)
    assert server.process.poll() is None, "its port is another's"


@contextlib.contextmanager
def _database() -> Iterator[str]:
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL: run .ci/postgres")
    cluster = Cluster(binaries)
    try:
        yield cluster.empty()
    finally:
        cluster.remove()


@contextlib.contextmanager
def _haproxy(folder: Path, port: int, servers: Sequence[int]) -> Iterator[None]:
    """Run HAProxy with the configuration that the page shows, for these ports."""
    program = shutil.which("haproxy", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("no HAProxy: apt-get install haproxy")
    (shown,) = re.findall(r"```haproxy\n(.*?)```", PAGE.read_text(), re.DOTALL)
    known = [line for line in shown.splitlines() if not line.startswith("    server ")]
    known += [f"    server s{each} 127.0.0.1:{each} check inter 200ms" for each in servers]
    text = "\n".join(known).replace("bind :80", f"bind 127.0.0.1:{port}")
    (folder / "haproxy.cfg").write_text(f"{text}\n")
    with (folder / "haproxy.log").open("wb") as log:
        process = subprocess.Popen(
            [program, "-db", "-f", str(folder / "haproxy.cfg")],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        wait_for(lambda: _answers(port) or None)
        yield
    finally:
        stop(process)


def _answers(port: int) -> bool:
    with contextlib.suppress(httpx2.TransportError):
        return httpx2.get(f"http://127.0.0.1:{port}/healthz").is_success
    return False


@contextlib.contextmanager
def _relay(folder: Path, port: int, servers: Sequence[int]) -> Iterator[None]:
    with relaying(port, servers):
        yield


_PROXIES = {"haproxy": _haproxy, "relay": _relay}
if PROXY and PROXY not in _PROXIES:
    raise pytest.UsageError(f"PROXY is {PROXY!r}; allowed: {', '.join(_PROXIES)}, or leave it out.")

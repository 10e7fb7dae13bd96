"""`python -m server` by itself, and several servers that share a database, behind HAProxy."""

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

from bench.deployments.walk import SETTINGS, START_SECONDS
from bench.deployments.watching import LIMITS, until
from bench.postgres import Cluster, find_binaries
from bench.storm.servers import Fleet, Server, free_port, is_ready

VARIABLES = {**SETTINGS, **LIMITS, "DEVICE": "cpu", "OMP_NUM_THREADS": "1"}
"""Variables of each server that is started without a container."""


def environment() -> dict[str, str]:
    """Return the variables of this process, without settings of servers, and those of a walk."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COG_")}
    return kept | VARIABLES


def cluster() -> Cluster:
    """Start a private PostgreSQL.

    Raises:
        SystemExit: there is none.
    """
    binaries = find_binaries()
    if binaries is None:
        sys.exit("ERROR: PostgreSQL is not installed; run .ci/postgres")
    return Cluster(binaries)


def _replace(server: Server) -> None:
    server.stop()
    if not _has_ended_well(server):
        sys.exit("ERROR: a server did not end by SIGTERM")
    server.start()
    until(lambda: is_ready(server.url), START_SECONDS, "a server is not ready again")


def _has_ended_well(server: Server) -> bool:
    return server.process is not None and server.process.wait() == 0


@dataclass
class OneServer:
    """One server, with SQLite."""

    folder: Path
    count: int = 1
    host: str = "127.0.0.1"
    _server: Server = field(init=False)

    def __post_init__(self) -> None:
        port = free_port()
        own = {"PORT": str(port), "WEIGHTS_DIR": str(self.folder / "weights")}
        own["DATA_DIR"] = str(self.folder / "data")
        self._server = Server(port, self.folder, environment() | own)

    @property
    def url(self) -> str:
        """The server's address."""
        return self._server.url

    def start(self) -> None:
        """Start the server."""
        self._server.start()

    def targets(self) -> list[str]:
        """Return the server's address once it is ready."""
        return [self.url.removeprefix("http://")] if is_ready(self.url) else []

    def replace(self) -> None:
        """End the server by SIGTERM, and start it with the same folders."""
        _replace(self._server)

    def stop(self) -> bool:
        """End the server by SIGTERM."""
        self._server.stop()
        return _has_ended_well(self._server)

    def remove(self) -> None:
        """End the server if it runs yet."""
        self._server.stop()


@dataclass
class Servers:
    """Two servers of one PostgreSQL and one folder of adapters, as Kubernetes runs them."""

    folder: Path
    count: int = 2
    host: str = "127.0.0.1"

    def __post_init__(self) -> None:
        self._database = cluster()
        self._fleet = Fleet(self.folder, self._database, self.count, variables=VARIABLES)

    @property
    def url(self) -> str:
        """HAProxy's address."""
        return self._fleet.url

    def start(self) -> None:
        """Start all servers, and HAProxy once they are ready."""
        self._fleet.start()

    def targets(self) -> list[str]:
        """Return the addresses of the servers that are ready."""
        urls = [each.url for each in self._fleet.servers]
        return [url.removeprefix("http://") for url in urls if is_ready(url)]

    def replace(self) -> None:
        """End one server after the other by SIGTERM, and start it anew."""
        for each in self._fleet.servers:
            _replace(each)

    def stop(self) -> bool:
        """End HAProxy, and the servers by SIGTERM."""
        self._fleet.stop()
        return all(map(_has_ended_well, self._fleet.servers))

    def remove(self) -> None:
        """End what runs yet, and remove the database."""
        self._fleet.stop()
        self._database.remove()

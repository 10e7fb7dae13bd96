"""Measures from nothing to the first answers of a new server, by itself and as a replica of Ray.

    python -m bench.ray_serve cold_start --output docs/results/cold-start.json

Each kind of start takes turns in one run with the template and MiniLM, one thread for the model,
and files in the page cache. A server by itself counts from the start of its process; a replica from
the order that there be two, which includes Ray's decision. A new server is asked as soon as
`/readyz` is 200, one request after the other: by a stored adapter where there is one, plain, and
with 16 examples. What is asked first pays for what a first forward costs.
"""

import contextlib
import http.client
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import psutil

from bench.postgres import Cluster, find_binaries
from bench.ray_serve.one_node import PORT, cpu_seconds, one_node, replicas
from bench.ray_serve.one_page import publish
from bench.ray_serve.rivals import VARIABLES
from bench.ray_serve.sides import Ours
from bench.ray_serve.turns import TEXT
from bench.report import Columns, Report, Row, Spread, arguments, interleave, seconds
from bench.serving_servers import Served, shipped

T = TypeVar("T")
NAME, DASHBOARD = "ours", "http://127.0.0.1:8265"
STEPS = 10
PAUSE = 0.05
MOST_SECONDS = 180.0
REPLICA_PORTS = range(30000, 31000)  # of Ray's HAProxy mode
READY, STORED, PLAIN, ADAPTED = "/readyz", "by a stored adapter", "plain", "adapted"
CPU = "CPU s in all"
COLUMNS: Columns = {
    "start": str,
    **dict.fromkeys((READY, STORED, PLAIN, ADAPTED, CPU), seconds),
}


READING = """\
Made by `python -m bench.ray_serve cold_start`, whose module says what is counted: seconds from the
start of the process, or from the order of a second replica, until `/readyz` is 200 and until the
first answers have come, asked in this order. Values have their median and range over the rounds."""
_seeds = itertools.count(1)  # of the whole run: what a store has seen would be known


def server_of(served: Served) -> Ours:
    """Return how a server is asked; none of its adaptations is known before."""
    return Ours(served, STEPS, _seeds)


@dataclass(frozen=True)
class Sizes:
    """The extent of a run."""

    rounds: int = 5


QUICK = Sizes(rounds=1)
Start = Callable[[int], dict[str, float]]


def asked(server: Ours, began: float, stored: str) -> dict[str, float]:
    """Ask a server that has just become ready; return seconds since its start."""
    found = {READY: time.perf_counter() - began}
    if stored:
        server.predict([TEXT], stored)
        found[STORED] = time.perf_counter() - began
    server.predict([TEXT], "")
    found[PLAIN] = time.perf_counter() - began
    server.adapt([TEXT])
    found[ADAPTED] = time.perf_counter() - began
    return found | {CPU: cpu_seconds(server.served.pid)}


@contextlib.contextmanager
def alone(variables: Mapping[str, str]) -> Iterator[tuple[Ours, float]]:
    """Start a server by itself in an empty folder; yield it and the moment of its start."""
    with tempfile.TemporaryDirectory() as name:
        apart = {"DEVICE": "cpu", "DATABASE_URL": f"sqlite:///{name}/records.db"}
        began = time.perf_counter()
        with shipped(Path(name), "alone", apart | dict(variables)) as served:
            yield server_of(served), began


def started_alone(
    _round: int, *, variables: Mapping[str, str] = MappingProxyType({}), stored: str = ""
) -> dict[str, float]:
    """Measure a server by itself."""
    with alone(variables) as (server, began):
        return asked(server, began, stored)


class Replicas:
    """The application with one replica, which is scaled to two and back by its config."""

    def __init__(self) -> None:
        from ray.dashboard.modules.serve.sdk import ServeSubmissionClient

        self._client: Any = ServeSubmissionClient(DASHBOARD)
        self._scale(1)
        _wait(lambda: len(replicas(NAME)) == 1 or None)
        (pid,) = replicas(NAME)
        _wait(lambda: ready_port(pid))
        self._stored = server_of(Served("Ray", PORT, pid)).adapt([TEXT]).adapter

    def started(self, _round: int) -> dict[str, float]:
        """Measure a second replica, and end one."""
        before, began = {*replicas(NAME)}, time.perf_counter()
        self._scale(2)
        pid = _wait(lambda: next(iter({*replicas(NAME)} - before), None))
        port = _wait(lambda: ready_port(pid))
        found = asked(server_of(Served("Ray", port, pid)), began, self._stored)
        self._scale(1)
        _wait(lambda: len(replicas(NAME)) == 1 or None)
        return found

    def _scale(self, count: int) -> None:
        """Order so many replicas; Ray restarts none, since the arguments remain."""
        options = {"min_replicas": 1, "max_replicas": 2, "drain_seconds": 0, "num_cpus": 1}
        bounds = {"min_replicas": count, "max_replicas": count}
        application = {
            "name": NAME,
            "route_prefix": "/",
            "import_path": "deploy.ray.app:app",
            "args": options,
            "deployments": [{"name": "server", "autoscaling_config": bounds}],
        }
        http = {"host": "0.0.0.0", "port": PORT}
        config = {"proxy_location": "HeadOnly", "http_options": http}
        self._client.deploy_applications(config | {"applications": [application]})


def _wait(look: Callable[[], T | None]) -> T:
    deadline = time.monotonic() + MOST_SECONDS
    while (found := look()) is None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"nothing was found within {MOST_SECONDS:g} s")
        time.sleep(PAUSE)
    return found


def ready_port(pid: int) -> int | None:
    """Return the port of a replica that is ready."""
    for each in psutil.Process(pid).net_connections("tcp"):
        if each.status == psutil.CONN_LISTEN and each.laddr.port in REPLICA_PORTS:
            return int(each.laddr.port) if _is_ready(each.laddr.port) else None
    return None


def _is_ready(port: int) -> bool:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=5)) as line:
        try:
            line.request("GET", "/readyz")
            answer = line.getresponse()
            return answer.status == 200 and json.loads(answer.read())["ready"] is True
        except OSError:
            return False


def contestants(folder: Path) -> dict[str, Start]:
    """Return the kinds of start; the folder is of what earlier starts leave."""
    store = {"ADAPTER_STORE": f"file://{folder}/store"}
    proven = {"WEIGHTS_DIR": str(folder / "proven")}
    with alone(store) as (server, _):
        stored = server.adapt([TEXT]).adapter
    with alone(proven):
        pass
    return {
        "alone, as shipped, the first on its host": started_alone,
        "alone, as shipped, a later one": partial(started_alone, variables=proven),
        "alone, SELF_TEST=off": partial(started_alone, variables={"SELF_TEST": "off"}),
        "alone, the first on its host, with ADAPTER_STORE": partial(
            started_alone, variables=store, stored=stored
        ),
        "Ray, from one replica to two": Replicas().started,
    }


def rows(found: dict[str, list[dict[str, float]]]) -> list[Row]:
    """Make a row of each kind of start."""
    return [
        {"start": name, **{what: Spread.of([each[what] for each in turns]) for what in turns[0]}}
        for name, turns in found.items()
    ]


def main() -> None:
    """Measure from nothing to the first answers of a new server."""
    chosen = arguments(main.__doc__)
    sizes = QUICK if chosen.quick else Sizes()
    binaries = find_binaries()
    if binaries is None:
        sys.exit("ERROR: PostgreSQL is not installed; run .ci/postgres")
    database = Cluster(binaries)
    try:
        variables = VARIABLES | {"DATABASE_URL": database.empty()}
        with one_node(variables, cores=4) as folder:
            found = rows(interleave(contestants(folder), sizes.rounds))
    finally:
        database.remove()
    facts = {"rounds": sizes.rounds, "steps of an adaptation": STEPS}
    report = Report("From nothing to the first answers, s", COLUMNS, found, facts)
    publish(report, READING, chosen.output)


if __name__ == "__main__":
    main()

"""Kills processes of servers in turn, each time ten seconds after all servers are ready again.

Between the kills PostgreSQL is restarted once, and servers stand still for longer than a lease.
"""

import os
import random
import signal
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from bench.storm.noted import Kill, Noted
from bench.storm.servers import Fleet

_CALM_SECONDS = 10.0
_STILL_SECONDS = 15.0  # a lease is 10 s


@dataclass
class Kills:
    """A thread that kills: servers, each third time a model process, and PostgreSQL once.

    Attributes:
        fleet: what it kills.
        most: the number of kills beside PostgreSQL's restart.
        stops: how often a server stands still.
        seed: of the choice.
        done: the kills so far.
        error: the reason for an early end.
    """

    fleet: Fleet
    most: int
    stops: int
    seed: int
    done: list[Kill] = field(default_factory=list)
    error: str = ""

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Wait for the last kill, and until all servers are ready."""
        self._thread.join()

    @property
    def share(self) -> float:
        """The share of all requests that may be sent by now, so that some are left for each kill.

        1 after the last kill.
        """
        all_kills = self.most + self.stops + 1
        return (len(self.done) + 1) / (all_kills + 1) if self._thread.is_alive() else 1.0

    def _run(self) -> None:
        try:
            self._kill_in_turn()
        except (OSError, RuntimeError) as error:  # the judge reports it; TimeoutError is an OSError
            self.error = repr(error)

    def _kill_in_turn(self) -> None:
        draw = random.Random(self.seed)
        kinds = ["server", "server", "model process"] * self.most
        plan = kinds[: self.most] + ["server that stands still"] * self.stops
        draw.shuffle(plan)
        plan.insert(len(plan) // 2, "PostgreSQL")
        for kind in plan:
            time.sleep(_CALM_SECONDS)
            if kind == "PostgreSQL":
                self._restart_database()
            else:
                self._kill(kind, draw)

    def _restart_database(self) -> None:
        at = time.monotonic()
        self.fleet.database.stop()
        time.sleep(1.0)
        self.fleet.database.start()
        self._note("PostgreSQL", (), at)

    def _kill(self, kind: str, draw: random.Random) -> None:
        """Kill or stop a server where something is under way, if there is one."""
        busy = Noted.read(self.fleet.step_log).busy_processes()
        servers = self.fleet.servers
        server = draw.choice([each for each in servers if busy & {*each.workers()}] or servers)
        workers, at = server.workers(), time.monotonic()
        if kind == "model process":
            workers = [draw.choice([each for each in workers if each in busy] or workers)]
            os.kill(workers[0], signal.SIGKILL)
            time.sleep(0.5)  # until the server knows
        elif kind == "server":
            server.kill()
            server.start()
        else:
            server.stand_still(_STILL_SECONDS)
        self._note(kind, workers, at, is_final=kind in ("server", "model process"))

    def _note(
        self, name: str, processes: Iterable[int], at: float, *, is_final: bool = True
    ) -> None:
        """Wait until all servers are ready, and note the kill."""
        self.fleet.until_ready()
        seconds = time.monotonic() - at
        self.done.append(Kill(name, frozenset(processes), at, seconds, is_final))

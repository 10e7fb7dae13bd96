"""Kills processes of servers in turn, each time ten seconds after all servers are ready again."""

import os
import random
import signal
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from bench.storm.servers import Fleet

_CALM_SECONDS = 10.0


@dataclass(frozen=True)
class Kill:
    """What was killed, and when.

    Attributes:
        name: of its kind.
        processes: that ended by it.
        at: the time just before, in seconds since the boot.
        seconds: until all servers were ready again.
    """

    name: str
    processes: frozenset[int]
    at: float
    seconds: float


@dataclass
class Kills:
    """A thread that kills: servers, each third time a model process, and PostgreSQL once.

    Attributes:
        fleet: what it kills.
        most: the number of kills beside PostgreSQL's.
        seed: of the choice.
        done: the kills so far.
        error: the reason for an early end.
    """

    fleet: Fleet
    most: int
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
        return (len(self.done) + 1) / (self.most + 2) if self._thread.is_alive() else 1.0

    def _run(self) -> None:
        try:
            self._kill_in_turn()
        except (OSError, RuntimeError) as error:  # the judge reports it; TimeoutError is an OSError
            self.error = repr(error)

    def _kill_in_turn(self) -> None:
        draw = random.Random(self.seed)
        for number in range(self.most):
            time.sleep(_CALM_SECONDS)
            if number == self.most // 2:
                self._restart_database()
                time.sleep(_CALM_SECONDS)
            self._kill(number, draw)

    def _restart_database(self) -> None:
        at = time.monotonic()
        self.fleet.database.stop()
        time.sleep(1.0)
        self.fleet.database.start()
        self._note("PostgreSQL", (), at)

    def _kill(self, number: int, draw: random.Random) -> None:
        server = draw.choice(self.fleet.servers)
        workers, at = server.workers(), time.monotonic()
        if number % 3 == 2 and workers:
            chosen = draw.choice(workers)
            os.kill(chosen, signal.SIGKILL)
            time.sleep(0.5)  # until the server knows
            self._note("model process", [chosen], at)
        else:
            server.kill()
            server.start()
            self._note("server", workers, at)

    def _note(self, name: str, processes: Iterable[int], at: float) -> None:
        """Wait until all servers are ready, and note the kill."""
        seconds = self.fleet.until_ready()
        self.done.append(Kill(name, frozenset(processes), at, seconds))

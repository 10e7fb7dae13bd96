"""Kills processes of servers in turn, each time ten seconds after all servers are ready again."""

import os
import random
import signal
import threading
import time
from dataclasses import dataclass, field

from bench.storm.servers import Fleet

_CALM_SECONDS = 10.0


@dataclass
class Kills:
    """A thread that kills: servers, each third time a model process, and PostgreSQL once.

    Attributes:
        fleet: what it kills.
        most: the number of kills beside PostgreSQL's.
        seed: of the choice.
        done: the name of each killed process, with the seconds until all servers were ready.
        error: the reason for an early end.
    """

    fleet: Fleet
    most: int
    seed: int
    done: list[tuple[str, float]] = field(default_factory=list)
    error: str = ""

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Wait for the last kill, and until all servers are ready."""
        self._thread.join()

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
        self.fleet.database.stop()
        time.sleep(1.0)
        self.fleet.database.start()
        self.done.append(("PostgreSQL", self.fleet.until_ready()))

    def _kill(self, number: int, draw: random.Random) -> None:
        server = draw.choice(self.fleet.servers)
        workers = server.workers()
        name = "model process" if number % 3 == 2 and workers else "server"
        if name == "model process":
            os.kill(draw.choice(workers), signal.SIGKILL)
            time.sleep(0.5)  # until the server knows
        else:
            server.kill()
            server.start()
        self.done.append((name, self.fleet.until_ready()))

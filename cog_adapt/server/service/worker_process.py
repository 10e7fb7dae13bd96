"""One worker process: started, spoken to over a socket, and its exit noticed."""

import asyncio
import contextlib
import multiprocessing
import os
import signal
import socket
from collections.abc import Callable

from cog_adapt.server.protocol import Report, Request, to_frame
from cog_adapt.server.service.connection import Connection
from cog_adapt.server.temp_files import remove_temp_files
from cog_adapt.server.worker.config import WorkerConfig
from cog_adapt.server.worker.entry import enter


class WorkerProcess:
    """A worker process from its start to its exit.

    Args:
        config: what it loads; the names of its temporary files begin with `config.prefix`.
        on_report: called with each report.
        on_exit: called once, with how it ended, when everything it said has been reported.
    """

    def __init__(
        self,
        config: WorkerConfig,
        on_report: Callable[[Report], None],
        on_exit: Callable[[str], None],
    ) -> None:
        self._config, self._on_exit = config, on_exit
        self.exited = asyncio.Event()
        ours, theirs = socket.socketpair()
        self._process = multiprocessing.get_context("spawn").Process(
            target=enter, args=(theirs, config), name=f"model-{config.kind}"
        )
        self._process.start()
        theirs.close()
        self._connection = Connection(ours, on_report, self.kill)
        asyncio.get_running_loop().add_reader(self._process.sentinel, self._notice_exit)

    def send(self, request: Request) -> bool:
        """Send a request; return False where the process is gone and cannot have heard of it."""
        return not self.exited.is_set() and self._connection.write(to_frame(request))

    def kill(self) -> None:
        """End the process at once."""
        if not self.exited.is_set() and self._process.is_alive():
            self._process.kill()

    def _notice_exit(self) -> None:
        asyncio.get_running_loop().remove_reader(self._process.sentinel)
        self._process.join()
        _end_group(self._process.pid)
        remove_temp_files(self._config.prefix)
        self.exited.set()
        self._connection.drain()
        self._on_exit(_cause(self._process.exitcode))


def _end_group(process: int | None) -> None:
    """End whatever the worker has started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if process is not None:
            os.killpg(process, signal.SIGKILL)


def _cause(code: int | None) -> str:
    """Return how a process ended, in words."""
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            return f"was killed by signal {-code} ({signal.Signals(-code).name})"
    return f"exited with code {code}"

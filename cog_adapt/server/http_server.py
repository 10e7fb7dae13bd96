"""The HTTP server: uvicorn, with Cog's behaviour at signals and at the end."""

import argparse
import asyncio
import gc
import math
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Literal

import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp

from cog_adapt.server.api.dependencies import parts_in
from cog_adapt.server.assembly import build_server
from cog_adapt.server.middleware.connection_limits import bounded
from cog_adapt.server.process.forced_end import end_by_force_after
from cog_adapt.server.protocol import Kind
from cog_adapt.server.settings import Settings
from cog_adapt.server.start_screen import say_outcome
from cog_adapt.server.worker.config import WorkerConfig

_KEEP_ALIVE_SECONDS = 75
_END_SECONDS = 4.8  # after the time to drain, the process ends by force
_ANSWER_SECONDS = 1  # to answer callers whose runs were given up at the end of the time to drain


def _whole(seconds: float | None) -> int | None:
    return None if seconds is None else math.ceil(seconds) + _ANSWER_SECONDS


def _config(
    app: ASGIApp, settings: Settings, lifespan: Literal["auto", "off"] = "auto"
) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        lifespan=lifespan,
        loop="uvloop",
        http=bounded(settings.max_connections),
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_whole(settings.drain_seconds),
    )


class Server(uvicorn.Server):
    """uvicorn, with Cog's behaviour at signals.

    Args:
        settings: of the operator.
        configs: the code that each worker loads.
        flags: Cog's.
        build: makes the application.
        url: where the other servers of the database ask this one; None: they cannot.

    Attributes:
        ended_by: the signal that ended it.
        refusal: why it must not serve, and has ended; else None.
        links: the addresses that a terminal shows once the setup has ended; None shows nothing.
    """

    def __init__(
        self,
        settings: Settings,
        configs: dict[Kind, WorkerConfig],
        flags: argparse.Namespace,
        build: Callable[[Settings], FastAPI],
        url: str | None = None,
    ) -> None:
        built = build_server(
            settings,
            configs,
            mode=flags.mode,
            build=build,
            shut_down=self._end,
            refuse=self._refuse,
            url=url,
        )
        self._app = built.app
        self._drain_seconds = settings.drain_seconds
        self._loop: asyncio.AbstractEventLoop | None = None
        super().__init__(_config(built.asgi, settings))
        self._ignores_sigterm = flags.await_explicit_shutdown
        self.ended_by: int | None = None
        self.refusal: str | None = None
        self.links: dict[str, str] | None = None
        self._screen: asyncio.Task[None] | None = None

    def _end(self) -> None:
        if not self.should_exit and self._drain_seconds is not None:
            end_by_force_after(self._drain_seconds + _END_SECONDS)
        self.should_exit = True

    def _refuse(self, reason: str) -> None:
        self.refusal = reason
        self._end()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Freeze permanent objects for the garbage collector.

        The server then answers 2,108 requests a second, not 1,765.
        """
        await super().startup(sockets)
        gc.collect()
        gc.freeze()
        if self.links is not None and not self.should_exit:
            workers = parts_in(self._app).service.workers
            self._screen = asyncio.create_task(say_outcome(workers, self.links, sys.stderr))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Apply one limit to open requests and to work without waiting clients."""
        self._loop = asyncio.get_running_loop()
        if self._screen is not None:
            self._screen.cancel()
        parts_in(self._app).service.drain(self._drain_seconds)
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """SIGTERM and SIGINT end the server; they are not raised again, as uvicorn would."""
        signals = (signal.SIGTERM, signal.SIGINT)
        before = {number: signal.signal(number, self._take) for number in signals}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _take(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGTERM and self._ignores_sigterm:
            return
        if self._loop is not None and number == signal.SIGINT:  # a second Ctrl-C
            self._loop.call_soon_threadsafe(parts_in(self._app).service.give_up)
        self.ended_by = number
        self._end()


class PeerServer(uvicorn.Server):
    """uvicorn for the other servers of the database, where another program serves callers.

    It takes no signals, and begins and ends nothing: the other program runs the application.

    Args:
        app: the application behind its middlewares.
        settings: of the operator.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        super().__init__(_config(app, settings, lifespan="off"))

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave all signals to the other program."""
        yield

"""Starts a server from Cog's flags."""

import argparse
import asyncio
import gc
import math
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

import coglet
import uvicorn
from fastapi import FastAPI

from cog_adapt.server.api.dependencies import parts_in
from cog_adapt.server.app import Launch, create_app, launch
from cog_adapt.server.cogfile import read_cogfile
from cog_adapt.server.errors import ConfigError
from cog_adapt.server.forced_end import end_by_force_after
from cog_adapt.server.links import log_playground, warn_if_open
from cog_adapt.server.middleware.connection_limits import bounded
from cog_adapt.server.middleware.stack import add_middleware
from cog_adapt.server.protocol import Kind
from cog_adapt.server.records import Records
from cog_adapt.server.records.space import RecordSpace
from cog_adapt.server.settings import COGFILE, Settings, read_settings
from cog_adapt.server.telemetry.logs import configure_logs
from cog_adapt.server.telemetry.metrics import Metrics
from cog_adapt.server.worker.config import WorkerConfig

_STUBS: dict[Kind, str] = {"predict": "COG_PREDICT_TYPE_STUB", "train": "COG_TRAIN_TYPE_STUB"}
_COMMANDS = "Commands instead of flags: predict, train, openapi, key, adapters (each with --help)."
_KEEP_ALIVE_SECONDS = 75
_END_SECONDS = 4.8  # after the time to drain, the process ends by force
_ANSWER_SECONDS = 1  # to answer callers whose runs were given up at the end of the time to drain


def serve(
    arguments: Sequence[str],
    build: Callable[[Settings], FastAPI] = create_app,
    program: str = "python -m server",
) -> NoReturn:
    """Serve until told to end; the exit code is Cog's.

    Args:
        arguments: Cog's flags.
        build: makes the application, by `create_app` and additions to it.
        program: the command's name in its help.
    """
    flags = _read_flags(arguments, program)
    if flags.version:
        sys.stdout.write(f"coglet (Python) {coglet.__version__}\n")
        sys.exit(0)
    try:
        _take_variables_of_image()
        settings = read_settings()
        configure_logs(settings.log_format, settings.cog_log_level)
        configs = worker_configs(settings, flags.mode, flags.upload_url)
        listener = _listen(flags.host, settings.port)
        server = Server(settings=settings, configs=configs, flags=flags, build=build)
    except ConfigError as error:
        sys.exit(f"ERROR: {error}")
    warn_if_open(listener, has_keys=settings.api_keys_file is not None)
    if not settings.strict_cog:
        log_playground(listener)
    with listener:
        server.run(sockets=[listener])
    if server.ended_by == signal.SIGINT:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    sys.exit(0 if server.started else 1)


def _take_variables_of_image() -> None:
    """Set the variables that an image built from `cog.yaml` would have."""
    if COGFILE.exists():
        for name, value in read_cogfile(COGFILE).variables.items():
            os.environ.setdefault(name, value)


def _read_flags(arguments: Sequence[str], program: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=program,
        description="Cog HTTP server",
        epilog=_COMMANDS if program == "python -m server" else None,
    )
    parser.add_argument("-v", "--version", action="store_true", help="show version and exit")
    parser.add_argument("--host", default="0.0.0.0", help="host to bind to")
    parser.add_argument(
        "--await-explicit-shutdown",
        type=bool,
        default=False,
        help="ignore SIGTERM and wait for POST /shutdown or SIGINT",
    )
    parser.add_argument(
        "--x-mode",
        dest="mode",
        choices=("predict", "train"),
        default="predict",
        help="what starts with the server",
    )
    parser.add_argument("--threads", type=int, help="accepted and ignored, as in Cog")
    parser.add_argument("--upload-url", help="PUT output files below this URL")
    return parser.parse_args(arguments)


def worker_configs(
    settings: Settings, mode: Kind, upload_url: str | None
) -> dict[Kind, WorkerConfig]:
    """Return the configuration of each worker.

    Raises:
        ConfigError: there is no code for this mode.
    """
    stubs: dict[Kind, str | None] = {
        "predict": settings.cog_predict_type_stub,
        "train": settings.cog_train_type_stub,
    }
    if not stubs[mode]:
        raise ConfigError(
            f"{_STUBS[mode]} environment variable is not set, and cog.yaml names nothing for "
            f"it. Set it to your code, such as {_STUBS[mode]}={mode}.py:Predictor."
        )
    configs: dict[Kind, WorkerConfig] = {}
    for kind, reference in stubs.items():
        if reference:
            configs[kind] = WorkerConfig(
                reference=reference,
                kind=kind,
                other=stubs["train" if kind == "predict" else "predict"],
                concurrency=_concurrency(settings) if kind == mode else 1,
                upload_url=upload_url,
                user_agent=settings.cog_user_agent,
                egress_allow=settings.egress_allow,
                max_file_bytes=settings.max_file_bytes,
                download_seconds=math.inf if settings.strict_cog else settings.download_seconds,
                log_format=settings.log_format,
                hang_seconds=settings.hang_seconds,
            )
    return configs


def _concurrency(settings: Settings) -> int | None:
    """Return the setting, else the decorator's number (None: read it later), as in a Cog build."""
    is_image = any(os.environ.get(name) for name in _STUBS.values())
    return settings.cog_max_concurrency or (1 if is_image and settings.strict_cog else None)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"{host} port {port} cannot be listened on: {error.strerror}. "
            "End the process that listens there, or set PORT."
        ) from error
    return listener


def _whole(seconds: float | None) -> int | None:
    return None if seconds is None else math.ceil(seconds) + _ANSWER_SECONDS


class Server(uvicorn.Server):
    """uvicorn, with Cog's behaviour at signals.

    Args:
        settings: of the operator.
        configs: the code that each worker loads.
        flags: Cog's.
        build: makes the application.

    Attributes:
        ended_by: the signal that ended it.
    """

    def __init__(
        self,
        settings: Settings,
        configs: dict[Kind, WorkerConfig],
        flags: argparse.Namespace,
        build: Callable[[Settings], FastAPI],
    ) -> None:
        # the app comes first, because a mistake in the app must leave the database closed
        app, metrics = build(settings), Metrics()
        metrics.watch(space := RecordSpace.of(settings))
        records = Records.open(settings.database_url, settings.data_dir, space=space)
        self._app = app
        launch(
            app,
            Launch(
                configs=configs,
                mode=flags.mode,
                records=records,
                metrics=metrics,
                shut_down=self._end,
            ),
        )
        self._drain_seconds = settings.drain_seconds
        self._loop: asyncio.AbstractEventLoop | None = None
        super().__init__(
            uvicorn.Config(
                add_middleware(app, settings, metrics),
                loop="uvloop",
                http=bounded(settings.max_connections),
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=_KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=_whole(settings.drain_seconds),
            )
        )
        self._ignores_sigterm = flags.await_explicit_shutdown
        self.ended_by: int | None = None

    def _end(self) -> None:
        if not self.should_exit and self._drain_seconds is not None:
            end_by_force_after(self._drain_seconds + _END_SECONDS)
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Freeze permanent objects for the garbage collector.

        The server then answers 2,108 requests a second, not 1,765.
        """
        await super().startup(sockets)
        gc.collect()
        gc.freeze()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Apply one limit to open requests and to work without waiting clients."""
        self._loop = asyncio.get_running_loop()
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

"""Starts a server from Cog's flags."""

import argparse
import math
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

import coglet
from fastapi import FastAPI

from cog_adapt.server.app import create_app
from cog_adapt.server.cogfile import read_cogfile
from cog_adapt.server.errors import ConfigError
from cog_adapt.server.files.uploads import uploads_folder
from cog_adapt.server.http_server import Server
from cog_adapt.server.process.disk_warning import warn_of_disk
from cog_adapt.server.process.links import links_of, log_playground, warn_if_open
from cog_adapt.server.process.own_url import own_url
from cog_adapt.server.protocol import Kind
from cog_adapt.server.settings import COGFILE, Settings, read_settings
from cog_adapt.server.telemetry.logs import configure_logs, format_on
from cog_adapt.server.worker.config import WorkerConfig

_STUBS: dict[Kind, str] = {"predict": "COG_PREDICT_TYPE_STUB", "train": "COG_TRAIN_TYPE_STUB"}
_COMMANDS = "Commands instead of flags: predict, train, openapi, key, adapters (each with --help)."


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
        settings = start_settings()
        configs = worker_configs(settings, flags.mode, flags.upload_url)
        listener = _listen(flags.host, settings.port)
        url = own_url(listener, settings.server_url, settings.database_url)
        server = Server(settings=settings, configs=configs, flags=flags, build=build, url=url)
    except ConfigError as error:
        sys.exit(f"ERROR: {error}")
    warn_if_open(listener, has_keys=settings.api_keys_file is not None)
    warn_of_disk(settings)
    if settings.log_format == "console":
        server.links = links_of(listener, flags.mode, has_page=not settings.strict_cog)
    elif not settings.strict_cog:
        log_playground(listener)
    with listener:
        server.run(sockets=[listener])
    if server.ended_by == signal.SIGINT:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    if server.refusal is not None:
        sys.exit(f"ERROR: {server.refusal}")
    sys.exit(0 if server.started else 1)


def start_settings() -> Settings:
    """Read the settings of a server that starts in this process, and log as they say.

    The environment gets the variables that an image built from `cog.yaml` would have.

    Raises:
        ConfigError: a setting, or `cog.yaml`, is wrong.
    """
    _take_variables_of_image()
    settings = read_settings()
    log_format = format_on(sys.stderr, settings.log_format)
    configure_logs(log_format, settings.cog_log_level)
    return settings.model_copy(update={"log_format": log_format})


def _take_variables_of_image() -> None:
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
                uploads=None if settings.strict_cog else uploads_folder(settings),
                database=settings.database_url,
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

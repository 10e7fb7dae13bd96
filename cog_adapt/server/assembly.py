"""Builds a whole server: the application with its records, behind its middlewares."""

from collections.abc import Callable
from dataclasses import dataclass

from fastapi import FastAPI
from starlette.types import ASGIApp

from cog_adapt.server.app import Launch, launch
from cog_adapt.server.middleware.stack import add_middleware
from cog_adapt.server.protocol import Kind
from cog_adapt.server.records import Records
from cog_adapt.server.records.space import RecordSpace
from cog_adapt.server.settings import Settings
from cog_adapt.server.telemetry.metrics import Metrics
from cog_adapt.server.worker.config import WorkerConfig


@dataclass(frozen=True)
class BuiltServer:
    """A server whose lifespan has not begun.

    Attributes:
        app: the application; its parts are there once the lifespan has begun.
        asgi: the application behind its middlewares, which is what answers.
    """

    app: FastAPI
    asgi: ASGIApp


def build_server(  # noqa: PLR0913 - a server is made of these
    settings: Settings,
    configs: dict[Kind, WorkerConfig],
    *,
    mode: Kind,
    build: Callable[[Settings], FastAPI],
    shut_down: Callable[[], None],
    refuse: Callable[[str], None],
    url: str | None,
) -> BuiltServer:
    """Return a server for whatever speaks HTTP: uvicorn here, Ray Serve in `deploy/ray/`.

    Args:
        settings: of the operator.
        configs: the code that each worker loads.
        mode: the kind whose worker starts with the server.
        build: makes the application.
        shut_down: ends the server, for `POST /shutdown`.
        refuse: ends the server, which must not serve, for this reason.
        url: where the other servers of the database ask this one; None: they cannot.

    Raises:
        ConfigError: a setting cannot be used, or the application or the database cannot be opened.
    """
    # the app comes first, because a mistake in the app must leave the database closed
    app, metrics = build(settings), Metrics()
    metrics.watch(space := RecordSpace.of(settings))
    records = Records.open(settings.database_url, settings.data_dir, space=space)
    launch(
        app,
        Launch(
            configs=configs,
            mode=mode,
            records=records,
            metrics=metrics,
            shut_down=shut_down,
            refuse=refuse,
            url=url,
        ),
    )
    return BuiltServer(app, add_middleware(app, settings, metrics, records))

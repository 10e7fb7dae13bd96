"""The application: it puts the parts together, and turns what they raise into answers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from datetime import timedelta

import structlog
from fastapi import FastAPI
from starlette.types import ASGIApp

from cog_adapt.server.api import docs, exceptions
from cog_adapt.server.api import health as state
from cog_adapt.server.api import history as record_routes
from cog_adapt.server.api import predictions as runs
from cog_adapt.server.egress import Egress
from cog_adapt.server.middleware.auth import protect
from cog_adapt.server.middleware.metrics import Observed
from cog_adapt.server.middleware.raw_path import EncodedSlashes
from cog_adapt.server.protocol import Kind
from cog_adapt.server.records import Records, RecordsError
from cog_adapt.server.service.dispatcher import Lane
from cog_adapt.server.service.health import Clinic
from cog_adapt.server.service.recorder import Journal
from cog_adapt.server.service.service import Desk
from cog_adapt.server.settings import Settings
from cog_adapt.server.telemetry.metrics import Metrics
from cog_adapt.server.telemetry.traces import Traces
from cog_adapt.server.webhooks import Envelope, Webhooks
from cog_adapt.server.worker.config import Plan

_PRUNE_SECONDS = 600.0
_WEBHOOK_SECONDS = 30.0
_LAST_WORDS_SECONDS = 5.0
log = structlog.get_logger()


def create_app(
    settings: Settings,
    plans: dict[Kind, Plan],
    mode: Kind,
    shut_down: Callable[[], None] = lambda: None,
    records: Records | None = None,
) -> FastAPI:
    """The application without its door.

    Args:
        settings: of the server.
        plans: what each model process loads.
        mode: which starts with the server.
        shut_down: ends the server.
        records: the database, if it is open already.

    Raises:
        ConfigError: a setting cannot be used.
    """
    traces, metrics = Traces.from_environment(), Metrics()
    egress = Egress(settings.egress_allow)
    envelope = Envelope("coglet/0.23.1", settings.webhook_auth_token, settings.webhook_secret)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        opened = records or Records.open(settings.database_url, settings.data_dir)
        await opened.register()
        webhooks = Webhooks(
            opened, egress, envelope, timeout=_WEBHOOK_SECONDS, count=metrics.webhook
        )
        interval = settings.cog_throttle_response_interval
        journal = Journal(opened, webhooks, metrics, traces, interval)
        lanes = {kind: Lane(plan, journal, settings) for kind, plan in plans.items()}
        desk = Desk(lanes, mode, opened, journal, settings)
        app.state.desk, app.state.clinic, app.state.webhooks = desk, Clinic(desk), webhooks
        async with _alive(desk, webhooks):
            yield
        await asyncio.to_thread(traces.close)

    app = FastAPI(
        title="Cog",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        telemetry=traces.fastapi,
        exception_handlers=exceptions.ANSWERS,
    )
    app.state.settings, app.state.metrics, app.state.shut_down = settings, metrics, shut_down
    _add_routes(app, settings)
    return app


def guarded(app: FastAPI) -> ASGIApp:
    """The application behind its door, counted."""
    return Observed(EncodedSlashes(protect(app, app.state.settings)), app.state.metrics)


@contextlib.asynccontextmanager
async def _alive(desk: Desk, webhooks: Webhooks) -> AsyncIterator[None]:
    """From the start of the model to the end of all that was accepted."""
    settings, records = desk.settings, desk.records
    await webhooks.start()
    await desk.open()
    pruning = asyncio.get_running_loop().create_task(_prune(records, settings))
    try:
        yield
    finally:
        pruning.cancel()
        await desk.close(settings.drain_seconds)
        await webhooks.drain(None if settings.drain_seconds is None else _LAST_WORDS_SECONDS)
        await webhooks.close()
        await records.close()


async def _prune(records: Records, settings: Settings) -> None:
    """Delete what is too old, or too much."""
    while True:
        try:
            age = timedelta(days=settings.retention_days)
            await records.prune(age, settings.retention_count)
        except RecordsError as error:
            log.warning("old records cannot be deleted", error=str(error))
        await asyncio.sleep(_PRUNE_SECONDS)


def _add_routes(app: FastAPI, settings: Settings) -> None:
    kinds: tuple[Kind, ...] = ("predict", "train")
    for kind in kinds:  # first, since routes are tried in this order
        runs.Runs(kind).add_to(app)
        if not settings.strict_cog:
            record_routes.Shelf(kind).add_to(app)
    state.add_to(app)
    docs.add_to(app)

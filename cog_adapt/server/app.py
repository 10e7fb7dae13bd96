"""The application: it puts the parts together, and turns what they raise into answers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from datetime import timedelta

import structlog
from fastapi import FastAPI
from starlette.types import ASGIApp

from cog_adapt.server.api import docs, exceptions
from cog_adapt.server.api import health as state
from cog_adapt.server.api import history as record_routes
from cog_adapt.server.api import predictions as runs
from cog_adapt.server.egress import Egress
from cog_adapt.server.errors import StorageError
from cog_adapt.server.middleware.auth import protect
from cog_adapt.server.middleware.metrics import MetricsMiddleware
from cog_adapt.server.middleware.raw_path import RawPathMiddleware
from cog_adapt.server.protocol import Kind
from cog_adapt.server.records import Records
from cog_adapt.server.service.dispatcher import Dispatcher
from cog_adapt.server.service.health import HealthMonitor
from cog_adapt.server.service.recorder import Recorder
from cog_adapt.server.service.service import PredictionService
from cog_adapt.server.settings import Settings
from cog_adapt.server.telemetry.metrics import Metrics
from cog_adapt.server.telemetry.traces import Traces
from cog_adapt.server.webhooks import Webhooks, WebhookSigner
from cog_adapt.server.worker.config import WorkerConfig

_PRUNE_SECONDS = 600.0
_WEBHOOK_SECONDS = 30.0
_LAST_WORDS_SECONDS = 5.0
log = structlog.get_logger()

Parts = tuple[dict[Kind, WorkerConfig], Kind, Callable[[], None], Records]
PARTS: ContextVar[Parts] = ContextVar("parts of the app that `build` makes")


def create_app(
    settings: Settings,
    configs: dict[Kind, WorkerConfig] | None = None,
    mode: Kind = "predict",
    shut_down: Callable[[], None] = lambda: None,
    records: Records | None = None,
) -> FastAPI:
    """The application without its door.

    Args:
        settings: of the server.
        configs: what each worker loads.
        mode: which starts with the server.
        shut_down: ends the server.
        records: the database, if it is open already.

    Raises:
        ConfigError: a setting cannot be used.
    """
    if configs is None:
        configs, mode, shut_down, records = PARTS.get()
    traces, metrics = Traces.from_environment(), Metrics()
    egress = Egress(settings.egress_allow)
    signer = WebhookSigner("coglet/0.23.1", settings.webhook_auth_token, settings.webhook_secret)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        opened = records or Records.open(settings.database_url, settings.data_dir)
        await opened.register()
        webhooks = Webhooks(opened, egress, signer, timeout=_WEBHOOK_SECONDS, count=metrics.webhook)
        interval = settings.cog_throttle_response_interval
        recorder = Recorder(opened, webhooks, metrics, traces, interval)
        dispatchers = {
            kind: Dispatcher(config, recorder, settings) for kind, config in configs.items()
        }
        service = PredictionService(dispatchers, mode, opened, recorder, settings)
        app.state.service, app.state.monitor, app.state.webhooks = (
            service,
            HealthMonitor(service),
            webhooks,
        )
        async with _alive(service, webhooks):
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


def add_middleware(app: FastAPI) -> ASGIApp:
    """The application behind its door, counted."""
    return MetricsMiddleware(RawPathMiddleware(protect(app, app.state.settings)), app.state.metrics)


@contextlib.asynccontextmanager
async def _alive(service: PredictionService, webhooks: Webhooks) -> AsyncIterator[None]:
    """From the start of the model to the end of all that was accepted."""
    settings, records = service.settings, service.records
    await webhooks.start()
    await service.open()
    pruning = asyncio.get_running_loop().create_task(_prune(records, settings))
    try:
        yield
    finally:
        pruning.cancel()
        await service.close(settings.drain_seconds)
        await webhooks.drain(None if settings.drain_seconds is None else _LAST_WORDS_SECONDS)
        await webhooks.close()
        await records.close()


async def _prune(records: Records, settings: Settings) -> None:
    """Delete what is too old, or too much."""
    while True:
        try:
            age = timedelta(days=settings.retention_days)
            await records.prune(age, settings.retention_count)
        except StorageError as error:
            log.warning("old records cannot be deleted", error=str(error))
        await asyncio.sleep(_PRUNE_SECONDS)


def _add_routes(app: FastAPI, settings: Settings) -> None:
    kinds: tuple[Kind, ...] = ("predict", "train")
    for kind in kinds:  # first, since routes are tried in this order
        runs.Runs(kind).add_to(app)
        if not settings.strict_cog:
            record_routes.HistoryRoutes(kind).add_to(app)
    state.add_to(app)
    docs.add_to(app)

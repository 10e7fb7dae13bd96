"""The application: its parts assembled, from the start of the worker to its end."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace

import structlog
from fastapi import FastAPI

from cog_adapt.server.api import docs, forgetting, health, playground
from cog_adapt.server.api.adapters import AdapterRoutes
from cog_adapt.server.api.dependencies import ServerParts
from cog_adapt.server.api.forgetting import ForgettingRoutes
from cog_adapt.server.api.history import HistoryRoutes
from cog_adapt.server.api.operations import operation_id
from cog_adapt.server.api.page import PageRoutes
from cog_adapt.server.api.passing import RunsElsewhere, pass_on
from cog_adapt.server.api.predictions import PredictionRoutes
from cog_adapt.server.api.responses import exception_handlers
from cog_adapt.server.egress import Egress
from cog_adapt.server.files.signed_urls import SignedUrls
from cog_adapt.server.protocol import NOUNS, Kind
from cog_adapt.server.records import Records
from cog_adapt.server.replicate.routes import platform_routes
from cog_adapt.server.service.adapters import AdapterService
from cog_adapt.server.service.announcer import Announcer
from cog_adapt.server.service.dispatcher import Dispatcher
from cog_adapt.server.service.folder_claim import claim_folder
from cog_adapt.server.service.health import HealthMonitor
from cog_adapt.server.service.observer import Observer
from cog_adapt.server.service.places import places_of
from cog_adapt.server.service.recorder import PredictionRecorder
from cog_adapt.server.service.service import PredictionService
from cog_adapt.server.settings import Settings
from cog_adapt.server.shares.budget import MemoryBudgets
from cog_adapt.server.telemetry.metrics import Metrics
from cog_adapt.server.telemetry.traces import PredictionTraces
from cog_adapt.server.upkeep import prune_now_and_then, tell_kubernetes
from cog_adapt.server.webhooks import Webhooks, WebhookSigner
from cog_adapt.server.worker.config import Place, WorkerConfig

_WEBHOOK_SECONDS = 30.0
_LAST_WEBHOOK_SECONDS = 1.0  # webhooks that are not sent by then are sent after the next start
log = structlog.get_logger()


@dataclass(frozen=True)
class Launch:
    """The start of a server: values from its flags, not its settings.

    Attributes:
        configs: the code that each worker loads.
        mode: the kind whose worker starts with the server.
        records: the database.
        metrics: counted from the first request on.
        shut_down: ends the server.
        refuse: ends the server, which then exits with this reason.
        url: where the other servers of the database ask this one; None: they cannot.
        places: one for each worker of this kind; `create_app` sets them.
    """

    configs: dict[Kind, WorkerConfig]
    mode: Kind
    records: Records
    metrics: Metrics
    shut_down: Callable[[], None]
    refuse: Callable[[str], None]
    url: str | None = None
    places: Sequence[Place] = (Place(),)


def create_app(settings: Settings) -> FastAPI:
    """Return the application, without its middleware; `launch` sets later what it runs.

    Args:
        settings: of the operator.

    Raises:
        ConfigError: a setting cannot be used.
    """
    traces = PredictionTraces.from_environment()
    app = FastAPI(
        title="Cog",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=_lifespan(settings, traces),
        telemetry=traces.fastapi,
        generate_unique_id_function=operation_id,
        exception_handlers={
            **exception_handlers(strict=settings.strict_cog),
            RunsElsewhere: pass_on,
        },
    )
    _add_routes(app, settings)
    return app


def _lifespan(
    settings: Settings, traces: PredictionTraces
) -> Callable[[FastAPI], contextlib.AbstractAsyncContextManager[None]]:
    """Return what runs from the server's start to its end; mistakes in settings raise here."""
    egress = Egress(settings.egress_allow)
    places = places_of(settings.model_processes, settings.memory_share)
    signer = WebhookSigner("coglet/0.23.1", settings.webhook_auth_token, settings.webhook_secret)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        started = replace(app.state.launch, places=places)
        await started.records.register(started.url)
        budgets = MemoryBudgets.of(settings)
        webhooks = Webhooks(
            started.records,
            egress,
            signer,
            timeout=_WEBHOOK_SECONDS,
            count=started.metrics.webhook,
            held=budgets.webhooks,
        )
        app.state.parts = parts = await _put_together(
            settings=settings, started=started, budgets=budgets, webhooks=webhooks, traces=traces
        )
        async with _running(parts, started.refuse):
            yield
        await asyncio.to_thread(traces.close)

    return lifespan


def launch(app: FastAPI, launched: Launch) -> None:
    """Set what an application of `create_app` runs when it is started."""
    app.state.launch = launched


async def _put_together(
    settings: Settings,
    started: Launch,
    budgets: MemoryBudgets,
    webhooks: Webhooks,
    traces: PredictionTraces,
) -> ServerParts:
    """Make the parts, from the independent ones to those that use all others."""
    service = _service(settings, started, budgets=budgets, webhooks=webhooks, traces=traces)
    return ServerParts(
        settings=settings,
        service=service,
        monitor=HealthMonitor(service),
        webhooks=webhooks,
        metrics=started.metrics,
        shut_down=started.shut_down,
        adapters=AdapterService(service),
        signed=await _signed_urls(settings),
        upload_url=started.configs[started.mode].upload_url,
    )


def _service(
    settings: Settings,
    started: Launch,
    *,
    budgets: MemoryBudgets,
    webhooks: Webhooks,
    traces: PredictionTraces,
) -> PredictionService:
    """Make the service, and what it dispatches, records and observes with."""
    observer = Observer(started.metrics, traces)
    announcer = Announcer(webhooks, observer, settings.cog_throttle_response_interval)
    recorder = PredictionRecorder(
        records=started.records, webhooks=webhooks, announcer=announcer, observer=observer
    )
    if len(started.places) > 1:
        others = [kind for kind in started.configs if kind != started.mode]
        started.metrics.of_workers.name([*(place.name for place in started.places), *others])
    for budget in budgets:
        started.metrics.watch(budget)
    dispatchers = {
        kind: Dispatcher(
            configs=[replace(config, place=place) for place in started.places]
            if kind == started.mode
            else [replace(config, place=Place(kind if len(started.places) > 1 else ""))],
            recorder=recorder,
            observer=observer,
            settings=settings,
            budgets=budgets,
        )
        for kind, config in started.configs.items()
    }
    return PredictionService(
        dispatchers=dispatchers,
        mode=started.mode,
        records=started.records,
        recorder=recorder,
        settings=settings,
    )


@contextlib.asynccontextmanager
async def _running(parts: ServerParts, refuse: Callable[[str], None]) -> AsyncIterator[None]:
    """Run everything, from the start of the worker to the end of all accepted requests."""
    seconds, records = parts.settings.drain_seconds, parts.service.records
    await parts.webhooks.start()
    await parts.adapters.news.start()
    parts.service.open()
    loop = asyncio.get_running_loop()
    tasks = [
        loop.create_task(prune_now_and_then(records, parts.settings)),
        loop.create_task(claim_folder(parts.service, refuse)),
    ]
    if parts.settings.kubernetes_service_host:
        tasks.append(loop.create_task(tell_kubernetes(parts.monitor)))
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await parts.service.close(seconds)
        parts.adapters.news.stop()
        parts.adapters.claims.close()
        await parts.adapters.settle()
        await parts.webhooks.drain(None if seconds is None else _LAST_WEBHOOK_SECONDS)
        await parts.webhooks.close()
        parts.large_bodies.close()
        await parts.peers.close()
        await records.close()


async def _signed_urls(settings: Settings) -> SignedUrls:
    database = None if settings.strict_cog else settings.database_url
    return await asyncio.to_thread(SignedUrls.shared, settings.data_dir, database)


def _add_routes(app: FastAPI, settings: Settings) -> None:
    routers = [health.router, docs.router]
    for kind in NOUNS:
        PredictionRoutes(kind).add_to(app)
        if not settings.strict_cog:
            routers[:0] = [HistoryRoutes(kind).router(), ForgettingRoutes(kind).router()]
    if not settings.strict_cog:
        app.router.routes.extend(
            PageRoutes().routes()
        )  # before Cog's `/`, which does not answer browsers
        routers.extend((forgetting.router, AdapterRoutes().router(), playground.router))
        app.router.routes.extend(platform_routes())
    # each router on its own: routes of a nested router would be hidden from 405 and metrics
    for router in routers:
        app.router.routes.extend(router.routes)

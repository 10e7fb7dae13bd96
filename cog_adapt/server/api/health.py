"""The endpoints about the server itself."""

import asyncio
from typing import Any

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from cog_adapt.server.api.dependencies import (
    MetricsDep,
    MonitorDep,
    ServiceDep,
    ShutDownDep,
    key_of,
)
from cog_adapt.server.api.openapi import whole_document
from cog_adapt.server.api.responses import json_response
from cog_adapt.server.api.shapes import (
    Document,
    Liveness,
    Nothing,
    Readiness,
    Report,
    Responses,
    refusals,
)
from cog_adapt.server.errors import NotFound, NotReady, SelfTestError, SelfTestTimeout
from cog_adapt.server.protocol import AskSelfTest, SelfTested
from cog_adapt.server.service.gauges import read_numbers
from cog_adapt.server.service.health import HealthMonitor, versions
from cog_adapt.server.service.self_test import outcome
from cog_adapt.server.service.worker import Worker

_SELF_TEST_SECONDS = 600.0
_READ = ["GET", "HEAD"]
_LATER = {"Retry-After": "5"}
_FAILED: Responses = {503: {"model": Report, "description": "It failed, or the model is not ready"}}
router = APIRouter(tags=["server"])


# Cog's own document contains this route
@router.api_route("/", methods=_READ, include_in_schema=False)
async def root(service: ServiceDep) -> Response:
    """Return the paths of the server's endpoints, as Cog does."""
    body = {
        "cog_version": versions()["python_sdk"],
        "docs_url": "/docs",
        "openapi_url": "/openapi.json",
        "shutdown_url": "/shutdown",
        "healthcheck_url": "/health-check",
    } | _urls("prediction")
    schemas = service.schema().get("components", {}).get("schemas", {})
    if service.is_ready and "TrainingInput" in schemas:
        body |= _urls("training")
    # browsers get a page from this route
    headers = None if service.settings.strict_cog else {"Vary": "Accept"}
    return json_response(body, 200, headers)


def _urls(noun: str) -> dict[str, str]:
    return {
        f"{noun}s_url": f"/{noun}s",
        f"{noun}s_idempotent_url": f"/{noun}s/{{{noun}_id}}",
        f"{noun}s_cancel_url": f"/{noun}s/{{{noun}_id}}/cancel",
    }


# Cog's own document contains this route too
@router.api_route("/health-check", methods=_READ, include_in_schema=False)
async def health_check(monitor: MonitorDep) -> Response:
    """Answer Cog's health check: always 200."""
    return json_response(await monitor.report())


@router.api_route("/healthz", methods=_READ, response_model=Liveness)
async def healthz() -> Response:
    """Answer a liveness check: the front process answers."""
    return json_response({"alive": True})


@router.api_route(
    "/readyz",
    methods=_READ,
    response_model=Readiness,
    responses={503: {"model": Readiness, "description": "Not ready"}},
)
async def readyz(request: Request, service: ServiceDep, monitor: MonitorDep) -> Response:
    """Answer a readiness check: 200 if the server accepts requests, else 503 and the reason.

    If keys are set, a caller without one is not told the reason.
    """
    if service.settings.api_keys_file is not None and key_of(request) is None:
        is_ready, body = await monitor.readiness_for_probes()
    else:
        is_ready, body = await monitor.readiness()
    return json_response(body) if is_ready else json_response(body, 503, _LATER)


@router.api_route("/openapi.json", methods=_READ, response_model=Document, responses=refusals(503))
async def openapi(request: Request, service: ServiceDep) -> Response:
    """Return the OpenAPI document."""
    if not service.is_ready:
        headers = None if service.settings.strict_cog else _LATER
        return json_response({"error": "OpenAPI schema not available"}, 503, headers)
    if service.settings.strict_cog:
        return json_response(service.schema())
    # In a thread: FastAPI's part is built at the first request, which takes some 30 ms.
    needs_key = service.settings.api_keys_file is not None
    document = await asyncio.to_thread(
        whole_document, request.app, service.schema(), needs_key=needs_key
    )
    return json_response(document)


@router.api_route(
    "/selftest", name="get", methods=_READ, response_model=Report, responses=refusals(404) | _FAILED
)
async def self_test(monitor: MonitorDep) -> Response:
    """Return the latest report of the gradient self-test."""
    return _latest(monitor)


@router.post(
    "/selftest", name="run", response_model=Report, responses=refusals(404, 500, 504) | _FAILED
)
async def run_self_test(service: ServiceDep, monitor: MonitorDep, metrics: MetricsDep) -> Response:
    """Run the gradient self-test again, between two steps of running work."""
    ready = [worker for worker in service.workers if worker.state == "ready"]
    if not ready:
        raise NotReady("the model is not ready; see GET /health-check.")
    for worker, report in zip(ready, await asyncio.gather(*map(_test, ready)), strict=True):
        if report is not None:
            monitor.self_tests[worker] = report
            metrics.of_workers.self_test(outcome(report), worker.place.name)
    return _latest(monitor)


async def _test(worker: Worker) -> dict[str, Any] | None:
    """Run the self-test of one worker; return its report, or None without a ModelRunner."""
    of = f" of worker {worker.place.name}" if worker.place.name else ""
    try:
        answer: SelfTested = await worker.pending.ask(AskSelfTest(), SelfTested, _SELF_TEST_SECONDS)
    except TimeoutError as error:
        raise SelfTestTimeout(f"no self-test{of} within {_SELF_TEST_SECONDS:g} s.") from error
    if answer.error is not None:
        raise SelfTestError(f"the self-test{of} could not be run: {answer.error}")
    return None if answer.report is None else msgspec.json.decode(answer.report)


def _latest(monitor: HealthMonitor) -> Response:
    report = monitor.last_self_test()
    if report is None:
        raise NotFound("there is no self-test: the predictor has no ModelRunner.")
    return json_response(report, 503 if outcome(report) is False else 200)


@router.api_route("/metrics", methods=_READ, response_class=PlainTextResponse)
async def metrics(request: Request, service: ServiceDep, numbers: MetricsDep) -> Response:
    """Return numbers for Prometheus."""
    ready = [worker for worker in service.workers if worker.state == "ready"]
    for worker, found in zip(ready, await asyncio.gather(*map(read_numbers, ready)), strict=True):
        numbers.of_workers.measured(found, worker.place.name)
    dispatchers = service.dispatchers.values()
    numbers.queued(sum(len(each.waiting) for each in dispatchers))
    numbers.running(sum(len(worker.running) for each in dispatchers for worker in each.workers))
    body, content_type = numbers.expose(request.headers.get("accept", ""))
    return Response(body, media_type=content_type)


@router.post("/shutdown", response_model=Nothing)
async def shutdown(shut_down: ShutDownDep) -> Response:
    """End the server, as SIGTERM does."""
    shut_down()
    return json_response({})

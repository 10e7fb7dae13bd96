"""The endpoints about the server itself."""

import msgspec
from fastapi import FastAPI, Request
from starlette.responses import Response

from cog_adapt.server.api.body import Refused
from cog_adapt.server.api.predictions import service_of
from cog_adapt.server.api.responses import json_answer
from cog_adapt.server.protocol import AskGauges, AskSelfTest, Gauges, SelfTested
from cog_adapt.server.schema.mirror_document import mirror_document
from cog_adapt.server.service.health import HealthMonitor, versions

_GAUGE_SECONDS = 0.5
_SELF_TEST_SECONDS = 600.0


def add_to(app: FastAPI) -> None:
    """Add the routes."""
    app.add_route("/", root, methods=["GET"])
    app.add_route("/health-check", health_check, methods=["GET"])
    app.add_route("/healthz", healthz, methods=["GET"])
    app.add_route("/readyz", readyz, methods=["GET"])
    app.add_route("/openapi.json", openapi, methods=["GET"])
    app.add_route("/selftest", self_test, methods=["GET"])
    app.add_route("/selftest", run_self_test, methods=["POST"])
    app.add_route("/metrics", metrics, methods=["GET"])
    app.add_route("/shutdown", shutdown, methods=["POST"])


def _monitor_of(request: Request) -> HealthMonitor:
    monitor: HealthMonitor = request.app.state.monitor
    return monitor


async def root(request: Request) -> Response:
    """Where everything is, as Cog tells it."""
    service = service_of(request)
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
    return json_answer(body)


def _urls(noun: str) -> dict[str, str]:
    return {
        f"{noun}s_url": f"/{noun}s",
        f"{noun}s_idempotent_url": f"/{noun}s/{{{noun}_id}}",
        f"{noun}s_cancel_url": f"/{noun}s/{{{noun}_id}}/cancel",
    }


async def health_check(request: Request) -> Response:
    """Cog's health check: always 200."""
    return json_answer(await _monitor_of(request).report())


async def healthz(_: Request) -> Response:
    """Liveness: the front process answers."""
    return json_answer({"alive": True})


async def readyz(request: Request) -> Response:
    """Readiness: 200 if requests are welcome here, else 503 and why."""
    is_ready, body = await _monitor_of(request).readiness()
    return json_answer(body, 200 if is_ready else 503)


async def openapi(request: Request) -> Response:
    """The OpenAPI document."""
    service = service_of(request)
    if not service.is_ready:
        return json_answer({"error": "OpenAPI schema not available"}, 503)
    return json_answer(mirror_document(service.schema(), strict=service.settings.strict_cog))


async def self_test(request: Request) -> Response:
    """The latest report of the gradient self-test."""
    report = _monitor_of(request).last_self_test()
    if report is None:
        raise Refused(404, "there is no self-test: the predictor has no ModelRunner.")
    return json_answer(report, 200 if report.get("passed") else 503)


async def run_self_test(request: Request) -> Response:
    """Run the gradient self-test again, between two steps of whatever runs."""
    service = service_of(request)
    if service.main.process.state != "ready":
        raise Refused(503, "the model is not ready; see GET /health-check.")
    try:
        events: SelfTested = await service.main.pending.ask(
            AskSelfTest(), SelfTested, _SELF_TEST_SECONDS
        )
    except TimeoutError as error:
        raise Refused(504, f"no self-test within {_SELF_TEST_SECONDS:g} s.") from error
    if events.error is not None:
        raise Refused(500, f"the self-test could not be run: {events.error}")
    if events.report is not None:
        report = msgspec.json.decode(events.report)
        _monitor_of(request).self_test = report
        request.app.state.metrics.self_test(report.get("passed") is True)
    return await self_test(request)


async def metrics(request: Request) -> Response:
    """Numbers for Prometheus."""
    service, numbers = service_of(request), request.app.state.metrics
    if service.main.process.state == "ready":
        try:
            events: Gauges = await service.main.pending.ask(AskGauges(), Gauges, _GAUGE_SECONDS)
            numbers.gauges(events.values)
        except TimeoutError:
            numbers.gauges({})
    dispatchers = service.dispatchers.values()
    numbers.queued(sum(len(dispatcher.waiting) for dispatcher in dispatchers))
    numbers.running(sum(len(dispatcher.running) for dispatcher in dispatchers))
    body, content_type = numbers.expose(request.headers.get("accept", ""))
    return Response(body, media_type=content_type)


async def shutdown(request: Request) -> Response:
    """End the server, as SIGTERM does."""
    request.app.state.shut_down()
    return json_answer({})

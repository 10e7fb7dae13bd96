"""Reports the server's state: Cog's health check, liveness and readiness."""

import platform
from datetime import datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import coglet
import msgspec
import structlog

from cog_adapt.server.protocol import AskHealth, Health
from cog_adapt.server.service.self_test import outcome
from cog_adapt.server.service.service import PredictionService

log = structlog.get_logger()
USABLE = ("READY", "BUSY")
_SETUP = {"idle": "starting", "starting": "starting", "setup failed": "failed"}
_SHOWN = ("level", "detail")
_READY_FILE = Path("/var/run/cog/ready")
_HEALTHCHECK_SECONDS = 5.0
_TIMED_OUT = "Healthcheck failed: user-defined healthcheck timed out after 5.0 seconds"


class HealthMonitor:
    """Reports the health of the service's main worker."""

    def __init__(self, service: PredictionService) -> None:
        self._service = service
        self.self_test: dict[str, Any] | None = None

    async def report(self) -> dict[str, Any]:
        """Return the body of /health-check."""
        complaint = await self._complaint() if self.status() in USABLE else None
        worker, status = self._service.worker, self.status()
        setup: dict[str, Any] = {
            "started_at": _nanoseconds(worker.setup.started_at),
            "status": _SETUP.get(worker.state, "succeeded"),
        }
        if worker.setup.completed_at is not None:
            setup["completed_at"] = _nanoseconds(worker.setup.completed_at)
            setup["logs"] = worker.setup.logs
        body = {"status": status, "setup": setup, "version": versions()} | self._further()
        if status in USABLE and complaint is not None:
            body |= {"status": "UNHEALTHY", "user_healthcheck_error": complaint}
        self._tell_kubernetes(is_ready=body["status"] in USABLE)
        return body

    def status(self) -> str:
        """Return Cog's word for the server's state, leaving out the user's own health check."""
        service = self._service
        state = service.worker.state
        if state == "ready":
            return "READY" if service.worker.free_slots else "BUSY"
        if state == "setup failed":
            return "SETUP_FAILED"
        return "DEFUNCT" if state == "defunct" else "STARTING"

    async def readiness(self) -> tuple[bool, dict[str, Any]]:
        """Return whether requests are accepted here, and if not, why."""
        body = await self.report()
        self_test = self.last_self_test()
        passed = outcome(self_test) is not False
        fault = self._service.records.error
        ready = body["status"] in USABLE and passed and not (self._service.is_closing or fault)
        reasons = {
            name: value
            for name, value in body.items()
            if name in ("status", "user_healthcheck_error")
        }
        if not passed:
            reasons["self_test"] = "failed"
        if fault:
            reasons["records"] = fault
        return ready, {"ready": ready} | reasons

    def last_self_test(self) -> dict[str, Any] | None:
        """Return the latest report of the gradient self-test, or None."""
        failed = self._service.worker.setup.self_test
        if failed is not None:
            report: dict[str, Any] = msgspec.json.decode(failed)
            return report
        if self.self_test is None:
            ready = self._service.worker.ready
            if ready is not None and ready.self_test is not None:
                self.self_test = msgspec.json.decode(ready.self_test)
        return self.self_test

    def _further(self) -> dict[str, Any]:
        """Return the fields that Cog's answer lacks."""
        worker = self._service.worker
        further: dict[str, Any] = {}
        if worker.crashes:
            further = {"crashes": worker.crashes, "last_crash": worker.last_crash}
        report = self.last_self_test()
        if report is not None:
            shown = {name: report[name] for name in _SHOWN if name in report}
            further["self_test"] = {"passed": report.get("passed")} | shown
        return further

    async def _complaint(self) -> str | None:
        ready = self._service.worker.ready
        if ready is None or not ready.has_healthcheck:
            return None
        try:
            answer: Health = await self._service.worker.pending.ask(
                AskHealth(), Health, _HEALTHCHECK_SECONDS + 0.5
            )
        except TimeoutError:
            return _TIMED_OUT
        return answer.error

    def _tell_kubernetes(self, *, is_ready: bool) -> None:
        if not self._service.settings.kubernetes_service_host or _READY_FILE.exists() == is_ready:
            return
        try:
            if is_ready:
                _READY_FILE.parent.mkdir(parents=True, exist_ok=True)
                _READY_FILE.touch()
            else:
                _READY_FILE.unlink()
        except OSError as error:
            log.warning("Kubernetes cannot be told", file=str(_READY_FILE), error=str(error))


@cache
def versions() -> dict[str, str]:
    """Return the versions of Cog's parts and of Python."""
    build = coglet.__build__
    return {
        "coglet": coglet.__version__,
        "git_sha": build.git_sha,
        "build_time": build.build_time,
        "python_sdk": version("cog"),
        "python": platform.python_version(),
    }


def _nanoseconds(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S.%f}000+00:00"

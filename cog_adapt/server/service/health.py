"""Reports the server's state: Cog's health check, liveness and readiness."""

import asyncio
import platform
import time
from collections.abc import Mapping
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
from cog_adapt.server.service.worker import Worker

log = structlog.get_logger()
USABLE = ("READY", "BUSY")
_SETUP = {"idle": "starting", "starting": "starting", "setup failed": "failed"}
_SHOWN = ("level", "detail")
_READY_FILE = Path("/var/run/cog/ready")
_HEALTHCHECK_SECONDS = 5.0
_PROBE_SECONDS = 1.0
_TIMED_OUT = "Healthcheck failed: user-defined healthcheck timed out after 5.0 seconds"


class HealthMonitor:
    """Reports the health of the service's workers; of several also by worker.

    Attributes:
        self_tests: the latest report of each worker's gradient self-test.
    """

    def __init__(self, service: PredictionService) -> None:
        self._service = service
        self.self_tests: dict[Worker, dict[str, Any]] = {}
        self._probe: asyncio.Task[tuple[bool, dict[str, Any]]] | None = None
        self._probed_at = 0.0

    async def report(self) -> dict[str, Any]:
        """Return the body of /health-check."""
        complaints = await self._complaints() if self.status() in USABLE else {}
        return self._report(complaints)

    def _report(self, complaints: Mapping[Worker, str]) -> dict[str, Any]:
        worker, status = self._service.worker, self.status()
        setup: dict[str, Any] = {
            "started_at": _nanoseconds(worker.setup.started_at),
            "status": _SETUP.get(worker.state, "succeeded"),
        }
        if worker.setup.completed_at is not None:
            setup["completed_at"] = _nanoseconds(worker.setup.completed_at)
            setup["logs"] = worker.setup.logs
        body = {"status": status, "setup": setup, "version": versions()} | self._further(complaints)
        ready = [each for each in self._service.workers if each.state == "ready"]
        if status in USABLE and complaints and complaints.keys() >= set(ready):
            complaint = next(iter(complaints.values()))
            body |= {"status": "UNHEALTHY", "user_healthcheck_error": complaint}
        self._tell_kubernetes(is_ready=body["status"] in USABLE)
        return body

    def status(self) -> str:
        """Return Cog's word for the server's state, leaving out the user's own health check."""
        state = self._service.worker.state
        if state == "ready":
            ready = [each for each in self._service.workers if each.state == "ready"]
            return "READY" if any(each.free_slots for each in ready) else "BUSY"
        if state == "setup failed":
            return "SETUP_FAILED"
        return "DEFUNCT" if state == "defunct" else "STARTING"

    async def readiness(self) -> tuple[bool, dict[str, Any]]:
        """Return whether requests are accepted here, and if not, why; and which workers are out."""
        complaints = await self._complaints() if self.status() in USABLE else {}
        body = self._report(complaints)
        faults = self._faults(complaints)
        workers = self._service.workers
        usable = [each for each in workers if each.is_usable] or workers
        passed = not all(map(self._has_failed, usable))
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
        if faults:
            reasons["degraded"] = faults
        return ready, {"ready": ready} | reasons

    async def readiness_for_probes(self) -> tuple[bool, dict[str, Any]]:
        """Return whether requests are accepted here, and Cog's word for the state, without reasons.

        Anybody may ask: those who ask at once, or within a second, share one look.
        """
        now = time.monotonic()
        if self._probe is None or (self._probe.done() and now - self._probed_at >= _PROBE_SECONDS):
            self._probe = asyncio.get_running_loop().create_task(self.readiness())
            self._probed_at = now
        is_ready, body = await asyncio.shield(self._probe)
        return is_ready, {name: body[name] for name in ("ready", "status")}

    def last_self_test(self) -> dict[str, Any] | None:
        """Return the latest report of the gradient self-test, or None.

        Of several workers it is the report of one that failed, else of the first, and names each
        worker's result in `workers`.
        """
        workers = self._service.workers
        reports = {each: report for each in workers if (report := self.self_test_of(each))}
        if not reports:
            return None
        failed = [each for each in reports if outcome(reports[each]) is False]
        shown = reports[failed[0] if failed else next(iter(reports))]
        if len(workers) == 1:
            return shown
        results = [{"worker": each.place.name, **_shown(reports[each])} for each in reports]
        return {**shown, "workers": results}

    def self_test_of(self, worker: Worker) -> dict[str, Any] | None:
        """Return the latest report of one worker's gradient self-test, or None."""
        if worker.setup.self_test is not None:  # of a setup that failed
            report: dict[str, Any] = msgspec.json.decode(worker.setup.self_test)
            return report
        if worker not in self.self_tests and worker.ready and worker.ready.self_test is not None:
            self.self_tests[worker] = msgspec.json.decode(worker.ready.self_test)
        return self.self_tests.get(worker)

    def _has_failed(self, worker: Worker) -> bool:
        return outcome(self.self_test_of(worker)) is False

    def _faults(self, complaints: Mapping[Worker, str]) -> list[str]:
        """Return a sentence for each of several workers that does not serve as it should."""
        workers = self._service.workers
        if len(workers) == 1:
            return []
        return [
            f"{_name(each)}: {fault}"
            for each in workers
            if (fault := self._fault(each, complaints.get(each)))
        ]

    def _fault(self, worker: Worker, complaint: str | None) -> str | None:
        if worker.state != "ready":
            reason = worker.setup.error if worker.state == "setup failed" else worker.last_crash
            return f"{worker.state}: {reason}" if reason else worker.state
        return complaint or ("the self-test failed" if self._has_failed(worker) else None)

    def _further(self, complaints: Mapping[Worker, str]) -> dict[str, Any]:
        """Return the fields that Cog's answer lacks."""
        workers = self._service.workers
        further: dict[str, Any] = {}
        if crashes := sum(each.crashes for each in workers):
            latest = max(workers, key=lambda each: each.crashed_at)
            further = {"crashes": crashes, "last_crash": latest.last_crash}
        report = self.last_self_test()
        if report is not None:
            further["self_test"] = _shown(report)
        if len(workers) > 1 and not self._service.settings.strict_cog:
            further["workers"] = [self._of_worker(each, complaints.get(each)) for each in workers]
        return further

    def _of_worker(self, worker: Worker, complaint: str | None) -> dict[str, Any]:
        place = {"worker": worker.place.name, "device": worker.place.device}
        shown = place | {"state": worker.state, "crashes": worker.crashes}
        if fault := self._fault(worker, complaint):
            shown["fault"] = fault
        report = self.self_test_of(worker)
        return shown if report is None else shown | {"self_test": _shown(report)}

    async def _complaints(self) -> dict[Worker, str]:
        """Return what the user's own health check says of each worker that it refuses."""
        workers = [each for each in self._service.workers if each.state == "ready"]
        answers = await asyncio.gather(*map(_complaint, workers))
        return {each: said for each, said in zip(workers, answers, strict=True) if said is not None}

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


async def _complaint(worker: Worker) -> str | None:
    if worker.ready is None or not worker.ready.has_healthcheck:
        return None
    try:
        answer: Health = await worker.pending.ask(AskHealth(), Health, _HEALTHCHECK_SECONDS + 0.5)
    except TimeoutError:
        return _TIMED_OUT
    return answer.error


def _shown(report: Mapping[str, Any]) -> dict[str, Any]:
    shown = {name: report[name] for name in _SHOWN if name in report}
    return {"passed": report.get("passed")} | shown


def _name(worker: Worker) -> str:
    device = worker.place.device
    return f"worker {worker.place.name}" + ("" if device is None else f" on device {device}")


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

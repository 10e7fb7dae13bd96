"""Answers the front process's requests outside of runs: health, the self-test, numbers."""

import asyncio
import contextvars
import os
import sys
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec

from cog_adapt.server.protocol import Gauges, Health, SelfTested
from cog_adapt.server.worker.active import NO_PREDICTION, current
from cog_adapt.server.worker.errors import describe_error
from cog_adapt.server.worker.event_loop import EventLoop
from cog_adapt.server.worker.extensions import find_self_testing, read_extra_gauges
from cog_adapt.server.worker.predictor import Predictor

HEALTHCHECK_SECONDS = 5.0
_PREFIX = "Healthcheck failed"
_LATE = f"user-defined healthcheck timed out after {HEALTHCHECK_SECONDS} seconds"


class HealthCheck:
    """The user's healthcheck(); one call at a time, even if it hangs."""

    def __init__(self, predictor: Predictor, loop: Callable[[], EventLoop]) -> None:
        self._predictor = predictor
        self._loop = loop
        self._asked: Future[Any] | None = None

    def ask(self) -> Health:
        """Call healthcheck(), or wait for the running call; 5 s at most."""
        if self._predictor.healthcheck is None:
            return Health()
        if self._asked is None or self._asked.done():
            self._asked = _in_thread(self._call)
        try:
            answer = self._asked.result(HEALTHCHECK_SECONDS)
        except TimeoutError as error:
            if not self._asked.done():
                return Health(f"{_PREFIX}: {_LATE}")
            return _failed(error)
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 - the user's code
            return _failed(error)
        if answer is False:
            return Health(f"{_PREFIX}: user-defined healthcheck returned False")
        return Health()

    def _call(self) -> object:
        healthcheck = self._predictor.healthcheck
        answer = healthcheck() if healthcheck else None
        return self._loop().complete(answer) if asyncio.iscoroutine(answer) else answer


def _failed(error: BaseException) -> Health:
    return Health(f"{_PREFIX}: {describe_error(error)}")


def _in_thread(function: Callable[[], object]) -> "Future[Any]":
    future: Future[Any] = Future()

    def work() -> None:
        current.set(NO_PREDICTION)  # what `function` prints belongs to no prediction
        try:
            future.set_result(function())
        except BaseException as error:  # noqa: BLE001 - goes to whoever waits
            future.set_exception(error)

    Thread(target=contextvars.copy_context().run, args=(work,), daemon=True).start()
    return future


def last_self_test(predictor: object) -> bytes | None:
    """Return the report of the self-test that setup() ran, as JSON."""
    tested = find_self_testing(predictor)
    report = None if tested is None else tested.self_test_report
    return None if report is None else msgspec.json.encode(report.to_json())


def self_test_of_failure(predictor: object) -> bytes | None:
    """Return the report of the self-test in a setup() that failed, or None."""
    try:
        return last_self_test(predictor)
    except Exception:  # noqa: BLE001 - the user's code; setup()'s own error is the one that counts
        traceback.print_exc()
        return None


def run_self_test(predictor: object) -> SelfTested:
    """Run the self-test again."""
    tested = find_self_testing(predictor)
    if tested is None:
        return SelfTested()
    try:
        return SelfTested(msgspec.json.encode(tested.self_test().to_json()))
    except Exception as error:  # noqa: BLE001 - the answer to whoever asked
        return SelfTested(error=describe_error(error))


def read_gauges(predictor: object) -> Gauges:
    """Return numbers about this process and its device, and the predictor's own numbers."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    values = {"process_memory_bytes": float(pages * os.sysconf("SC_PAGE_SIZE"))}
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        # the model's device may not be this thread's current one
        devices = range(torch.cuda.device_count())
        values["device_memory_bytes"] = float(sum(map(torch.cuda.memory_allocated, devices)))
        values["device_memory_reserved_bytes"] = float(
            sum(map(torch.cuda.memory_reserved, devices))
        )
    own = read_extra_gauges(predictor)
    return msgspec.structs.replace(own, values=own.values | values)

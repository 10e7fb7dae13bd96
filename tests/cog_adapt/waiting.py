"""Waits of tests: until something is so, with a deadline; or for as long as it has to stay so."""

import asyncio
import inspect
import threading
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

Value = TypeVar("Value")

_PAUSE = 0.01
_LONGEST_PAUSE = 0.05  # a look at a server costs milliseconds, there and here


def sleeping(pause: Callable[[float], object]) -> Callable[[float], object]:
    """Return what is to stand for `time.sleep`: `pause` for the thread of now, else a sleep."""
    own, sleep = threading.get_ident(), time.sleep
    return lambda seconds: (pause if threading.get_ident() == own else sleep)(seconds)


def wait_for(
    look: Callable[[], Value | None],
    seconds: float = 20.0,
    state: Callable[[], object] = lambda: "",
) -> Value:
    """Return what `look` returns as soon as it is not None; else fail, and show a state."""
    deadline, pause = time.monotonic() + seconds, _PAUSE
    while (value := look()) is None:
        assert time.monotonic() < deadline, f"nothing within {seconds} s {state()}"
        time.sleep(pause)
        pause = min(1.2 * pause, _LONGEST_PAUSE)
    return value


def wait_until(
    check: Callable[[], object],
    seconds: float = 20.0,
    state: Callable[[], object] = lambda: "",
) -> None:
    """Return as soon as the check holds; else fail, and show a state."""
    wait_for(lambda: True if check() else None, seconds, state)


def assert_stays(check: Callable[[], object], seconds: float) -> None:
    """Assert that the check holds, now and for so long: for what must not happen."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert check(), "it did not stay so"
        time.sleep(_PAUSE)
    assert check(), "it did not stay so"


def wait_until_quiet(count: Callable[[], int], seconds: float, most: float = 20.0) -> None:
    """Return once the count has not changed for so long."""
    deadline = time.monotonic() + most
    seen, since = count(), time.monotonic()
    while time.monotonic() < since + seconds:
        assert time.monotonic() < deadline, f"not quiet within {most} s"
        time.sleep(_PAUSE)
        if count() != seen:
            seen, since = count(), time.monotonic()


async def until(
    check: Callable[[], object] | Callable[[], Awaitable[object]], seconds: float = 20.0
) -> None:
    """Return as soon as the check holds, from an event loop."""
    async with asyncio.timeout(seconds):
        while not await _result(check()):
            await asyncio.sleep(_PAUSE)


async def assert_stays_so(check: Callable[[], object], seconds: float) -> None:
    """Assert that the check holds, now and for so long, from an event loop."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert check(), "it did not stay so"
        await asyncio.sleep(_PAUSE)
    assert check(), "it did not stay so"


async def _result(value: object) -> object:
    return await value if inspect.isawaitable(value) else value

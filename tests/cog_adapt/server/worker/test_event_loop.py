"""The event loop of the user's async code."""

import asyncio
import threading
from typing import Any

import pytest

from cog_adapt.server.worker.event_loop import EventLoop


@pytest.fixture
def ended():
    return threading.Event()


@pytest.fixture
def loop(ended):
    event_loop: Any = EventLoop(ended.set)
    yield event_loop
    if not ended.is_set():
        event_loop.loop.run_forever = raise_runtime_error
        event_loop.loop.call_soon_threadsafe(event_loop.loop.stop)
        assert ended.wait(10)
    event_loop.loop.close()


def raise_runtime_error():
    raise RuntimeError("Event loop is closed")


async def value(result):
    return result


async def raising(error):
    raise error


async def where():
    return asyncio.get_running_loop(), threading.current_thread()


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(3), KeyboardInterrupt()])
def test_what_it_raises_is_raised_here_and_the_loop_goes_on(loop, ended, error):
    with pytest.raises(type(error)) as caught:
        loop.complete(raising(error))
    assert caught.value is error
    assert loop.complete(value(7)) == 7
    assert not ended.is_set()


def test_one_that_takes_too_long_is_cancelled(loop):
    cancelled = threading.Event()

    async def slow():
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with pytest.raises(TimeoutError):
        loop.complete(slow(), timeout=0.05)
    assert cancelled.wait(10)


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_a_task_that_exits_or_a_stop_ends_nothing(loop, ended, error):
    def leave():
        raise error

    loop.loop.call_soon_threadsafe(leave)
    assert loop.complete(value(1), 10) == 1
    loop.loop.call_soon_threadsafe(loop.loop.stop)
    assert loop.complete(value(2), 10) == 2
    assert not ended.is_set()


def test_a_loop_that_cannot_go_on_is_reported(loop, ended, capsys):
    loop.loop.run_forever = raise_runtime_error
    loop.loop.call_soon_threadsafe(loop.loop.stop)
    assert ended.wait(10)
    assert "RuntimeError: Event loop is closed" in capsys.readouterr().err

"""The process's only event loop, for async setup(), healthcheck() and run()."""

import asyncio
import threading
import traceback
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class EventLoop:
    """An event loop on its own thread, which survives every exception of the user's code.

    Args:
        on_end: called when the loop can run no longer.
    """

    def __init__(self, on_end: Callable[[], None]) -> None:
        self._on_end = on_end
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self._run, name="event loop", daemon=True).start()

    def complete(self, coroutine: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Run a coroutine on the loop, and wait for it on this thread.

        Raises:
            TimeoutError: the coroutine takes longer, and is cancelled.
            BaseException: whatever the coroutine raises.
        """
        future = asyncio.run_coroutine_threadsafe(_contained(coroutine), self.loop)
        try:
            value, error = future.result(timeout)
        except TimeoutError:
            future.cancel()
            raise
        if error is not None:
            raise error
        return value  # type: ignore[return-value]

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self._run_for_ever()
        except BaseException:  # noqa: BLE001 - the user's code may have closed it
            traceback.print_exc()
        self._on_end()

    def _run_for_ever(self) -> None:
        while True:
            try:
                self.loop.run_forever()
            except (SystemExit, KeyboardInterrupt):  # raised by a task that the user's code left
                continue


async def _contained(coroutine: Coroutine[Any, Any, T]) -> tuple[T | None, BaseException | None]:
    """Catch every exception: a SystemExit that leaves a task would end the loop."""
    try:
        return await coroutine, None
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 - raised again
        return None, error

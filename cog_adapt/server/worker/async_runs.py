"""Runs an async run() or train(): a task each, on the process's only event loop."""

import asyncio
import contextlib
import contextvars
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from cog_adapt.server.protocol import Output, Run
from cog_adapt.server.worker.active import ActivePrediction, current, running_predictions
from cog_adapt.server.worker.downloads import InputFiles
from cog_adapt.server.worker.errors import (
    Outcome,
    RunError,
    calling_user,
    encoding_output,
    failure,
    reading_inputs,
)
from cog_adapt.server.worker.outputs import is_many, to_json
from cog_adapt.server.worker.processes import end_newer_than
from cog_adapt.server.worker.runs import RunContext, stage_name

_END = object()
_SCALARS = (str, int, float, type(None))
_PORTION = 256  # items that are sent before other runs have their turn
_MOST_AHEAD = 1_000  # frames that a list may put before another run's
_LARGE_BYTES = 2**16  # larger inputs are read off the event loop
_PAUSE_SECONDS = 0.001


class AsyncRuns:
    """The running tasks.

    Args:
        run_context: the parts that runs share.
        loop: the event loop that runs the tasks.
        stopped: a function that is called after `stop`, once all tasks have ended.
    """

    def __init__(
        self,
        run_context: RunContext,
        loop: asyncio.AbstractEventLoop,
        stopped: Callable[[], None],
    ) -> None:
        self._run_context = run_context
        self._loop = loop
        self._stopped = stopped
        self._tasks: dict[str, tuple[ActivePrediction, asyncio.Task[Outcome]]] = {}
        self._is_stopping = False

    def start(self, request: Run) -> None:
        """Start a task for a run."""
        self._loop.call_soon_threadsafe(self._start, request)

    def cancel(self, prediction_id: str) -> None:
        """Cancel the task of a run, and end the processes that only this run can have started."""
        self._loop.call_soon_threadsafe(self._cancel, prediction_id)

    def stop(self) -> None:
        """Start no more runs; running tasks may end."""
        self._loop.call_soon_threadsafe(self._stop)

    def _start(self, request: Run) -> None:
        active = self._run_context.activate(request)
        context = contextvars.copy_context()
        context.run(current.set, active)
        active.begin()
        files = self._run_context.input_files(active.request.owner)
        execution = _AsyncExecution(self._run_context, active, files)
        task = self._loop.create_task(execution.outcome(), context=context)
        self._tasks[active.request.id] = (active, task)

        def finish(task: "asyncio.Task[Outcome]") -> None:
            self._finish(active, files, task)

        task.add_done_callback(finish, context=context)

    def _finish(
        self, active: ActivePrediction, files: InputFiles, task: "asyncio.Task[Outcome]"
    ) -> None:
        files.close()
        self._run_context.connection.leave_if_forked()
        del self._tasks[active.request.id]
        outcome = _outcome_of(task)
        if active.interruption.requested:
            outcome = Outcome("canceled", outcome.is_list)
        active.end(outcome.status, outcome.error, is_list=outcome.is_list)
        self._end_if_idle()

    def _cancel(self, prediction_id: str) -> None:
        if prediction_id not in self._tasks:
            return
        active, task = self._tasks[prediction_id]
        if not active.interruption.requested:
            active.interruption.request()
            task.cancel()
            if len(running_predictions()) == 1:
                end_newer_than(active.children_before)

    def _stop(self) -> None:
        self._is_stopping = True
        self._end_if_idle()

    def _end_if_idle(self) -> None:
        if self._is_stopping and not self._tasks:
            self._stopped()


def _outcome_of(task: "asyncio.Task[Outcome]") -> Outcome:
    if task.cancelled():
        return Outcome("canceled")
    error = task.exception()  # for instance a SystemExit in a generator of the user's
    return task.result() if error is None else failure(error)


class _AsyncExecution:
    """One run, from its inputs to its outputs."""

    def __init__(
        self, run_context: RunContext, active: ActivePrediction, files: InputFiles
    ) -> None:
        self._code = run_context.predictor.code(active.request.kind)
        self._active = active
        self._files = files
        self._output_files = run_context.output_files(active)
        self._connection = run_context.connection
        self._is_list = False
        self._sent = 0

    async def outcome(self) -> Outcome:
        try:
            await self._produce(await self._arguments())
        except RunError as error:
            return Outcome("failed", self._is_list, str(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, the prediction has to end
            return failure(error)
        finally:
            self._output_files.remove()
        return Outcome("succeeded", self._is_list)

    async def _arguments(self) -> dict[str, Any]:
        with reading_inputs():
            is_large = len(self._active.request.input) > _LARGE_BYTES
            given, urls = await asyncio.to_thread(self._read) if is_large else self._read()
            if urls:
                await asyncio.gather(*map(asyncio.wrap_future, self._files.start(urls)))
            if is_large:
                return await asyncio.to_thread(self._convert, given)
            return self._convert(given)

    def _read(self) -> tuple[dict[str, Any], list[str]]:
        given = self._code.inputs.read(self._active.request.input)
        return given, self._code.inputs.urls(given)

    def _convert(self, given: dict[str, Any]) -> dict[str, Any]:
        return self._code.inputs.convert(given, iter(self._files.paths), self._files.open)

    async def _produce(self, arguments: dict[str, Any]) -> None:
        stage = stage_name(self._code.kind, is_async=True)
        with calling_user(stage, self._active, asyncio.CancelledError):
            result = self._code.function(**arguments)
            if inspect.isawaitable(result):
                result = await result
        if hasattr(result, "__anext__"):
            self._is_list = True
            await self._iterate(result, stage)
        elif is_many(result):
            self._is_list = True
            what = "output item" if hasattr(result, "__next__") else "output"
            items = iter(result)
            while (item := self._next(items, stage)) is not _END:
                await self._send(item, what)
        elif result is not None:
            self._active.send(await self._output(result, "output"))

    async def _iterate(self, iterator: Any, stage: str) -> None:  # noqa: ANN401 - any of theirs
        try:
            while (item := await self._anext(iterator, stage)) is not _END:
                await self._send(item, "output item")
        finally:
            await self._aclose(iterator, stage)

    async def _anext(self, iterator: Any, stage: str) -> object:  # noqa: ANN401 - any of theirs
        with (
            calling_user(stage, self._active, asyncio.CancelledError),
            contextlib.suppress(StopAsyncIteration),
        ):
            return await anext(iterator)
        return _END

    async def _aclose(self, iterator: Any, stage: str) -> None:  # noqa: ANN401 - any of theirs
        if hasattr(iterator, "aclose"):
            with calling_user(stage, self._active, asyncio.CancelledError):
                await iterator.aclose()

    def _next(self, items: Iterator[object], stage: str) -> object:
        with calling_user(stage, self._active, asyncio.CancelledError):
            return next(items, _END)

    async def _send(self, value: object, what: str) -> None:
        self._active.send(await self._output(value, what))
        self._sent += 1
        if self._sent % _PORTION == 0:
            await self._let_others_run()

    async def _let_others_run(self) -> None:
        await asyncio.sleep(0)
        while self._connection.waiting > _MOST_AHEAD:
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _output(self, value: object, what: str) -> Output:
        with encoding_output(what):
            if isinstance(value, _SCALARS):
                chunk = to_json(value, self._output_files)
            else:  # files are read and sent, which may take long
                chunk = await asyncio.to_thread(to_json, value, self._output_files)
        return Output(self._active.request.id, chunk)

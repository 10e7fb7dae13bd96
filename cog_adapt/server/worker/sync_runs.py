"""Runs a synchronous run() or train(), one at a time, on a thread of its own."""

import contextvars
import threading
import traceback
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from typing import Any

from cog import CancelationException

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
_ITERATION = "Generator iteration error"


class SyncRuns:
    """The thread that does the work.

    Args:
        run_context: the parts that runs share.
        stopped: called after `stop`, once all earlier runs have ended.
    """

    def __init__(self, run_context: RunContext, stopped: Callable[[], None]) -> None:
        self._run_context = run_context
        self._stopped = stopped
        self._started: dict[str, ActivePrediction] = {}
        self._waiting: SimpleQueue[ActivePrediction | None] = SimpleQueue()
        threading.Thread(target=self._work, name="run", daemon=True).start()

    def start(self, request: Run) -> None:
        """Queue a run behind the earlier ones; from now on it can be cancelled."""
        active = self._started[request.id] = self._run_context.activate(request)
        self._waiting.put(active)

    def cancel(self, prediction_id: str) -> None:
        """Interrupt a run, and end the processes that it has started."""
        active = self._started.get(prediction_id)
        if active is not None:
            active.interruption.request()
        if active in running_predictions():
            end_newer_than(active.children_before)

    def stop(self) -> None:
        """End the thread after the runs already started."""
        self._waiting.put(None)

    def _work(self) -> None:
        try:
            while (active := self._waiting.get()) is not None:
                contextvars.copy_context().run(self._run, active)
        except BaseException:  # noqa: BLE001 - the process must not stay without this thread
            traceback.print_exc()
            self._run_context.connection.abandon()
        self._stopped()

    def _run(self, active: ActivePrediction) -> None:
        current.set(active)
        active.begin()
        files = self._run_context.input_files(active.request.owner)
        try:
            outcome = _SyncExecution(self._run_context, active, files).outcome()
        except Exception as error:  # noqa: BLE001 - the thread must live for the next prediction
            outcome = failure(error)
        files.close()
        self._run_context.connection.leave_if_forked()
        # first, because its id may come again as soon as its end is known
        del self._started[active.request.id]
        status = "canceled" if active.interruption.requested else outcome.status
        error_text = None if status == "canceled" else outcome.error
        active.end(status, error_text, is_list=outcome.is_list)


class _SyncExecution:
    """One run, from its inputs to its outputs."""

    def __init__(
        self, run_context: RunContext, active: ActivePrediction, files: InputFiles
    ) -> None:
        self._code = run_context.predictor.code(active.request.kind)
        self._active = active
        self._files = files
        self._call = active.interruption.call
        self._output_files = run_context.output_files(active)
        self._is_list = False

    def outcome(self) -> Outcome:
        try:
            self._produce(self._arguments())
        except CancelationException:
            return Outcome("canceled", self._is_list)
        except RunError as error:
            return Outcome("failed", self._is_list, str(error))
        finally:
            self._output_files.remove()
        return Outcome("succeeded", self._is_list)

    def _arguments(self) -> dict[str, Any]:
        inputs = self._code.inputs
        with reading_inputs():
            given = inputs.read(self._active.request.input)
            if urls := inputs.urls(given):
                self._fetch(urls)
            return inputs.convert(given, iter(self._files.paths), self._files.open)

    def _fetch(self, urls: list[str]) -> None:
        interruption = self._active.interruption
        self._files.start(urls)
        self._files.wait(lambda: interruption.requested)
        if interruption.requested:
            raise CancelationException

    def _produce(self, arguments: dict[str, Any]) -> None:
        stage = stage_name(self._code.kind)
        with calling_user(stage, self._active):
            result = self._call(self._code.function, **arguments)
        if not is_many(result):
            if result is not None:
                self._active.send(self._output(result, "output"))
            return
        self._is_list = True
        if isinstance(result, Iterable) and not hasattr(result, "__next__"):
            for item in result:
                self._send(item, "output")
        else:
            self._iterate(result)

    def _iterate(self, iterator: Any) -> None:  # noqa: ANN401 - an iterator, perhaps a generator
        try:
            while (item := self._next(iterator)) is not _END:
                self._send(item, "output item")
        finally:
            self._close(iterator)

    def _next(self, iterator: Any) -> object:  # noqa: ANN401 - the same
        with calling_user(_ITERATION, self._active):
            return self._call(next, iterator, _END)

    def _close(self, iterator: Any) -> None:  # noqa: ANN401 - the same
        if hasattr(iterator, "close"):
            with calling_user(_ITERATION, self._active):
                iterator.close()

    def _send(self, value: object, what: str) -> None:
        self._active.send(self._output(value, what))

    def _output(self, value: object, what: str) -> Output:
        with encoding_output(what):
            return Output(self._active.request.id, to_json(value, self._output_files))

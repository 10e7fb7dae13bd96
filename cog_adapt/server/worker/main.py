"""The entry of the worker."""

import gc
import multiprocessing
import os
import signal
import socket
import sys
import threading
from typing import Any, TextIO

from cog_adapt.rare_collections import rare_collections
from cog_adapt.server.adapter_messages import (
    AdaptersAnswered,
    AskAdapters,
    Claimed,
    KeepServing,
)
from cog_adapt.server.postgresql import is_postgresql
from cog_adapt.server.protocol import (
    ADMIN_KEY,
    OWNER_KEY,
    AskHealth,
    AskSelfTest,
    Cancel,
    Health,
    Question,
    Ready,
    Report,
    Request,
    Run,
    SelfTested,
    SetupFailed,
    Stop,
)
from cog_adapt.server.worker.active import NO_PREDICTION, current
from cog_adapt.server.worker.adapters import AdapterAnswers, AdapterLease
from cog_adapt.server.worker.async_runs import AsyncRuns
from cog_adapt.server.worker.checks import (
    HealthCheck,
    last_self_test,
    read_gauges,
    run_self_test,
    self_test_of_failure,
)
from cog_adapt.server.worker.claims import WorkerClaims
from cog_adapt.server.worker.config import WorkerConfig
from cog_adapt.server.worker.connection import Connection
from cog_adapt.server.worker.downloads import Downloads
from cog_adapt.server.worker.errors import describe_error, setup_traceback
from cog_adapt.server.worker.event_loop import EventLoop
from cog_adapt.server.worker.extensions import (
    InAFolder,
    find_adapters,
    find_kept_folders,
    provide_asker_keys,
    provide_claims,
    read_model_threads,
)
from cog_adapt.server.worker.heartbeat import Heartbeat
from cog_adapt.server.worker.logs import SetupOutput, capture_output, print_progress
from cog_adapt.server.worker.predictor import Predictor
from cog_adapt.server.worker.runs import RunContext, Runs
from cog_adapt.server.worker.scope import install_scope
from cog_adapt.server.worker.sync_runs import SyncRuns


def main(channel: socket.socket, config: WorkerConfig, log: TextIO | None = None) -> None:
    """Load and serve one predictor until the front process says Stop, or is gone.

    Args:
        channel: a socket that is connected to the front process.
        config: the worker's configuration.
        log: the server's own log; by default stderr.
    """
    _ignore_signals()
    # in case the user's code has not chosen spawn
    multiprocessing.set_start_method(None, force=True)
    process = _Worker(Connection(channel, config.prefix), config, log or sys.stderr)
    process.serve()


def _ignore_signals() -> None:
    """Ignore Ctrl-C and SIGTERM, because the front process decides what ends.

    Ctrl-C reaches every process of a terminal. Programs that the model starts inherit no handler:
    signals end such programs as usual. A fork inherits the handlers, and first restores the default
    ones.
    """
    defaults = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    for number in defaults:
        signal.signal(number, lambda _number, _frame: None)

    def hold() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, defaults)

    def release() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, defaults)

    def restore() -> None:
        for number, handler in defaults.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        release()

    os.register_at_fork(before=hold, after_in_parent=release, after_in_child=restore)


class _Worker:
    def __init__(self, connection: Connection, config: WorkerConfig, log: TextIO) -> None:
        self._connection = connection
        self._config = config
        self._log = log
        self._loop: EventLoop | None = None
        self._loop_lock = threading.Lock()
        self._predictor: Predictor | None = None
        self._health: HealthCheck | None = None
        self._runs: Runs | None = None
        self._adapters: AdapterAnswers | None = None
        self._lease = AdapterLease()
        self._claims = WorkerClaims(connection.send)
        self._kept: list[AskAdapters] = []  # questions that wait for the end of the setup
        self._adapters_lock = threading.Lock()
        self._stopped = threading.Event()

    def serve(self) -> None:
        output = capture_output(self._connection.send, self._log, self._config.log_format)
        print_progress()
        install_scope()
        downloads = Downloads(self._config)
        heartbeat = Heartbeat(self._connection.send, self._config)
        threading.Thread(target=self._listen, name="reader", daemon=True).start()
        try:
            self._set_up(downloads, output, heartbeat)
        except BaseException as error:  # noqa: BLE001 - the user's code may raise anything
            sys.stderr.write(setup_traceback(error))
            instance = self._predictor.instance if self._predictor else None
            tested = self_test_of_failure(instance)
            output.end()
            self._connection.send(SetupFailed(" ".join(describe_error(error).split()), tested))
        self._stopped.wait()
        output.end()
        self._connection.close()
        gc.freeze()  # beside a model, the interpreter's last collections take up to a second

    def _set_up(self, downloads: Downloads, output: SetupOutput, heartbeat: Heartbeat) -> None:
        with rare_collections():
            predictor = self._predictor = Predictor(self._config)
            self._connection.send(predictor.describe())
            predictor.set_up(lambda coroutine: self._event_loop().complete(coroutine))
        provide_asker_keys(predictor.instance, OWNER_KEY, ADMIN_KEY)
        provide_claims(predictor.instance, self._claims)
        heartbeat.watch(read_model_threads(predictor.instance))
        kept = find_kept_folders(predictor.instance)
        run_context = RunContext(
            config=self._config,
            predictor=predictor,
            downloads=downloads,
            connection=self._connection,
            kept_folders=kept,
            last_words=heartbeat.last_words,
        )
        self._health = HealthCheck(predictor, self._event_loop)
        if predictor.is_async:
            loop = self._event_loop().loop
            self._runs = AsyncRuns(run_context, loop, self._stopped.set)
        else:
            self._runs = SyncRuns(run_context, self._stopped.set)
        self._offer_adapters(predictor)
        output.end()
        has_healthcheck, has_adapters = predictor.healthcheck is not None, bool(self._adapters)
        test = last_self_test(predictor.instance)
        folder = self._adapter_folder(predictor)
        self._connection.send(Ready(test, has_healthcheck, has_adapters, folder))

    def _adapter_folder(self, predictor: Predictor) -> tuple[str, str] | None:
        """Return identity and path of the folder of adapters; only PostgreSQL's servers need it."""
        found = find_adapters(predictor.instance)
        if not is_postgresql(self._config.database) or not isinstance(found, InAFolder):
            return None
        place = found.place()
        return None if place is None else (place["identity"], place["path"])

    def _offer_adapters(self, predictor: Predictor) -> None:
        found = find_adapters(predictor.instance)
        if found is not None:
            answers = AdapterAnswers(found, self._connection.send, self._lease)
            with self._adapters_lock:
                answers.start(self._kept)
                self._adapters = answers

    def _event_loop(self) -> EventLoop:
        with self._loop_lock:
            self._loop = self._loop or EventLoop(self._connection.abandon)
            return self._loop

    def _listen(self) -> None:
        try:
            for request in self._connection.requests():
                self._on_request(request)
        finally:
            self._connection.abandon()  # a worker that reads no requests serves nothing

    def _on_request(self, request: Request) -> None:
        """Dispatch a request at once: the next one may be a cancel."""
        if isinstance(request, AskAdapters):
            self._on_adapters(request)
        elif isinstance(request, KeepServing):
            self._lease.renew(request)
        elif isinstance(request, Claimed):
            self._claims.on_answer(request)
        elif not isinstance(request, Run | Cancel | Stop):
            threading.Thread(target=self._answer, args=(request,), daemon=True).start()
        elif self._runs is not None:  # no such request comes before Ready
            self._on_run(request, self._runs)

    def _on_adapters(self, request: AskAdapters) -> None:
        """Queue an adapter request; during the setup, requests only name other workers' changes."""
        with self._adapters_lock:
            if self._adapters is None:
                self._kept.append(request)
                self._connection.send(AdaptersAnswered(request.number))
                return
        self._adapters.answer(request)

    @staticmethod
    def _on_run(request: Run | Cancel | Stop, runs: Runs) -> None:
        if isinstance(request, Run):
            runs.start(request)
        elif isinstance(request, Cancel):
            runs.cancel(request.id)
        else:
            runs.stop()

    def _answer(self, request: Question) -> None:
        current.set(NO_PREDICTION)  # what it prints belongs to no prediction
        self._connection.send(self._report_on(request))

    def _report_on(self, request: Question) -> Report:
        instance: Any = self._predictor.instance if self._predictor else None
        if isinstance(request, AskHealth):
            return self._health.ask() if self._health else Health()
        if isinstance(request, AskSelfTest):
            return run_self_test(instance) if instance is not None else SelfTested()
        return read_gauges(instance)

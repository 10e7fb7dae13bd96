"""The dispatchers with real records; only the workers' processes are played."""

import asyncio
from typing import Any

import pytest

from cog_adapt.server.egress import Egress
from cog_adapt.server.protocol import Kind, Ready, Run
from cog_adapt.server.records import Records
from cog_adapt.server.records.space import RecordSpace
from cog_adapt.server.service.announcer import Announcer
from cog_adapt.server.service.dispatcher import Dispatcher
from cog_adapt.server.service.observer import Observer
from cog_adapt.server.service.prediction import PredictionSpec
from cog_adapt.server.service.recorder import PredictionRecorder
from cog_adapt.server.service.service import PredictionService
from cog_adapt.server.settings import Settings
from cog_adapt.server.shares.budget import MemoryBudgets
from cog_adapt.server.telemetry.metrics import Metrics
from cog_adapt.server.telemetry.traces import PredictionTraces
from cog_adapt.server.webhooks import Webhooks, WebhookSigner
from cog_adapt.server.worker.config import Place, WorkerConfig
from tests.cog_adapt.waiting import until

SET_UP = Ready()
ONLY = Place()


class PlayedProcess(Any):
    """Stands where a worker's process stands, and dies when it should."""

    def __init__(self):
        self.takes_work = self.hears = True
        self.was_killed_from_outside = False
        self.exited = asyncio.Event()
        self.said, self.kills, self.starts = [], [], 0

    def open(self, *_):
        self.starts += 1
        self.exited.clear()
        return self

    @property
    def is_over(self):
        return not self.takes_work

    def send(self, request):
        if self.hears:
            self.said.append(request)
        return self.hears

    def kill(self, cause=None):
        self.kills.append(cause)

    async def stop(self):
        self.takes_work = False

    @property
    def runs(self):
        return [each.id for each in self.said if isinstance(each, Run)]


def play_process(worker):
    """Set up a worker with a played process, and return the process."""
    process = PlayedProcess()
    worker.open_process = process.open
    worker.start()
    worker.on_report(SET_UP)
    return process


def events_of(prediction):
    """The events of a prediction so far, as a reader of its log gets them."""
    if prediction.events.next_number == 1:
        return []
    portion = prediction.events.follow().__anext__()
    with pytest.raises(StopIteration) as read:
        portion.send(None)  # there are some, so it waits for none
    return read.value.value


class Harness:
    """Dispatchers on a database of their own."""

    def __init__(self, folder, **settings):
        self.settings = Settings(**{"data_dir": folder, "max_queue": 5, **settings})
        self.budgets = MemoryBudgets.of(self.settings)
        self.records = Records.open(None, folder, space=RecordSpace.of(self.settings))
        self.webhooks = Webhooks(self.records, Egress(()), WebhookSigner("test", None, None))
        self.observer = Observer(Metrics(), PredictionTraces.from_environment())
        self.announcer = Announcer(self.webhooks, self.observer, 0)
        self.recorder = PredictionRecorder(
            self.records, self.webhooks, self.announcer, self.observer
        )
        self.played: dict[Kind, PlayedProcess] = {}
        self.dispatcher, self.trainings = (
            self.open_dispatcher("predict"),
            self.open_dispatcher("train"),
        )
        self.model = self.played["predict"]
        dispatchers: dict[Kind, Dispatcher] = {"predict": self.dispatcher, "train": self.trainings}
        self.service = PredictionService(
            dispatchers, "predict", self.records, self.recorder, self.settings
        )

    def open_dispatcher(self, kind, places=(ONLY,), concurrency=1):
        dispatcher = Dispatcher(
            [WorkerConfig("x.py:X", kind, concurrency=concurrency, place=each) for each in places],
            self.recorder,
            self.observer,
            self.settings,
            self.budgets,
        )
        for worker in reversed(dispatcher.workers):
            self.played[kind] = play_process(worker)  # of the first one in the end
        return dispatcher

    def several(self, count=2, slots=4):
        """Let several workers run the predictions; return them."""
        places = [Place(str(number)) for number in range(count)]
        self.dispatcher = self.open_dispatcher("predict", places, slots)
        self.model = self.played["predict"]
        return list(self.dispatcher.workers)

    def crash(self, cause="was killed", *, is_from_outside=False):
        """End the process of the predictions; its worker waits before it starts another."""
        self.model.takes_work = False
        self.model.was_killed_from_outside = is_from_outside
        self.model.exited.set()
        self.dispatcher.lead.on_exit(cause)

    async def set_up_again(self, report=SET_UP):
        """Let the process be set up that is started after a crash."""
        await until(lambda: self.dispatcher.lead.state == "starting")
        self.model.hears = self.model.takes_work = True
        self.dispatcher.lead.on_report(report)

    async def submit(self, name, kind="predict", **more):
        inputs = b'{"name": "x"}'
        dispatcher = self.dispatcher if kind == "predict" else self.trainings
        given: dict[str, Any] = {"input": inputs, "redacted_input": inputs, "durable": True}
        request = PredictionSpec(name, kind, **(given | more))
        return await dispatcher.submit(request)

    async def status(self, name):
        found = await self.records.get(name, "predict")
        return found and found.status

    async def flush(self):
        await self.recorder.flush()

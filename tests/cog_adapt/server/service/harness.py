"""The dispatchers with real records; only the workers' processes are played."""

from typing import Any

from cog_adapt.server.budget import Budgets
from cog_adapt.server.egress import Egress
from cog_adapt.server.protocol import Kind, Run
from cog_adapt.server.records import Records
from cog_adapt.server.service.announcer import Announcer
from cog_adapt.server.service.crashes import CrashCounter
from cog_adapt.server.service.dispatcher import Dispatcher
from cog_adapt.server.service.observer import Observer
from cog_adapt.server.service.prediction import PredictionRequest
from cog_adapt.server.service.recorder import Recorder
from cog_adapt.server.service.service import PredictionService
from cog_adapt.server.service.setup_progress import SetupProgress
from cog_adapt.server.settings import Settings
from cog_adapt.server.telemetry.metrics import Metrics
from cog_adapt.server.telemetry.traces import Traces
from cog_adapt.server.webhooks import Webhooks, WebhookSigner
from cog_adapt.server.worker.config import WorkerConfig


class PlayedProcess(Any):
    """Stands where a worker's process stands, and dies when it should."""

    def __init__(self):
        self.state, self.takes_work, self.hears = "ready", True, True
        self.has_been_ready, self.may_start = True, False
        crashes: Any = CrashCounter(5)
        crashes.forgive = self.forgive
        self.crashes = crashes
        self.setup, self.was_replaced, self.replacements = SetupProgress(), False, []
        self.said, self.starts, self.steady = [], 0, 0

    def send(self, request):
        if self.hears:
            self.said.append(request)
        return self.hears

    def replace(self, cause):
        self.replacements.append(cause)

    def start(self):
        self.starts += 1

    def forgive(self):
        self.steady += 1

    async def stop(self):
        self.takes_work = False

    @property
    def runs(self):
        return [each.id for each in self.said if isinstance(each, Run)]


class Harness:
    """Dispatchers on a database of their own."""

    def __init__(self, folder, **settings):
        self.settings = Settings(**{"data_dir": folder, "max_queue": 5, **settings})
        self.budgets = Budgets.of(self.settings)
        self.records = Records.open(None, folder)
        self.webhooks = Webhooks(self.records, Egress(()), WebhookSigner("test", None, None))
        self.observer = Observer(Metrics(), Traces.from_environment())
        self.announcer = Announcer(self.webhooks, self.observer, 0)
        self.recorder = Recorder(self.records, self.webhooks, self.announcer, self.observer)
        self.dispatcher, self.trainings = (
            self.open_dispatcher("predict"),
            self.open_dispatcher("train"),
        )
        self.model = self.dispatcher.lead.process
        dispatchers: dict[Kind, Dispatcher] = {"predict": self.dispatcher, "train": self.trainings}
        self.service = PredictionService(
            dispatchers, "predict", self.records, self.recorder, self.settings
        )

    def open_dispatcher(self, kind):
        dispatcher = Dispatcher(
            WorkerConfig("x.py:X", kind, concurrency=1),
            self.recorder,
            self.observer,
            self.settings,
            self.budgets,
        )
        dispatcher.lead.process = PlayedProcess()
        return dispatcher

    async def submit(self, name, kind="predict", **more):
        inputs = b'{"name": "x"}'
        dispatcher = self.dispatcher if kind == "predict" else self.trainings
        given: dict[str, Any] = {"input": inputs, "redacted_input": inputs, "durable": True}
        request = PredictionRequest(name, kind, **(given | more))
        return await dispatcher.submit(request)

    async def status(self, name):
        found = await self.records.get(name, "predict")
        return found and found.status

    async def flush(self):
        await self.recorder.flush()

"""The dispatcher with real records; only the worker is played, so that it dies when it should."""

import asyncio
import gc
import logging
import weakref

import pytest
import structlog

from cog_adapt.server.api.responses import STATUSES
from cog_adapt.server.egress import Egress
from cog_adapt.server.errors import IdInUse, NotRecorded
from cog_adapt.server.protocol import Cancel, Finished, Metric, Run, SetupFailed
from cog_adapt.server.records import Records
from cog_adapt.server.service.announcer import Announcer
from cog_adapt.server.service.crashes import CrashCounter
from cog_adapt.server.service.dispatcher import Dispatcher
from cog_adapt.server.service.observer import Observer
from cog_adapt.server.service.prediction import PredictionRequest
from cog_adapt.server.service.recorder import Recorder
from cog_adapt.server.service.service import PredictionService
from cog_adapt.server.settings import Settings
from cog_adapt.server.telemetry.metrics import Metrics
from cog_adapt.server.telemetry.traces import Traces
from cog_adapt.server.webhooks import Webhooks, WebhookSigner
from cog_adapt.server.worker.config import WorkerConfig


class Model:
    """Stands where the model process stands."""

    def __init__(self):
        self.state, self.takes_work, self.hears = "ready", True, True
        self.has_been_ready, self.may_start, self.crashes = True, False, CrashCounter(5)
        self.said, self.starts, self.steady = [], 0, 0
        self.crashes.forgive = self.forgive

    def run(self, request):
        if self.hears:
            self.said.append(request)
        return self.hears

    def cancel(self, id):
        self.said.append(Cancel(id, len(self.said)))

    def ask(self, request):
        self.said.append(request)

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

    def __init__(self, folder):
        self.settings = Settings(data_dir=folder, max_queue=5)
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
        dispatchers = {"predict": self.dispatcher, "train": self.trainings}
        self.service = PredictionService(
            dispatchers, "predict", self.records, self.recorder, self.settings
        )

    def open_dispatcher(self, kind):
        dispatcher = Dispatcher(
            WorkerConfig("x.py:X", kind, concurrency=1),
            self.recorder,
            self.observer,
            self.settings,
        )
        dispatcher.lead.process = Model()
        return dispatcher

    async def submit(self, name, kind="predict", **more):
        inputs = b'{"name": "x"}'
        dispatcher = self.dispatcher if kind == "predict" else self.trainings
        request = PredictionRequest(name, kind, inputs, inputs, **{"durable": True, **more})
        return await dispatcher.submit(request)

    async def status(self, name):
        found = await self.records.get(name, "predict")
        return found and found.status

    async def flush(self):
        await self.recorder.flush()


@pytest.fixture
def play(tmp_path):
    """Runs a scene of the world."""

    def run(scene):
        async def story():
            harness = Harness(tmp_path)
            await harness.records.register()
            try:
                await asyncio.wait_for(scene(harness), 30)
            finally:
                await harness.webhooks.close()
                await harness.records.close()

        asyncio.run(story())

    return run


def test_a_run_is_on_disk_before_the_model_hears_of_it(play):
    async def scene(harness):
        on_disk = []
        run = harness.model.run
        harness.model.run = lambda request: (
            on_disk.append(harness.records.waiting == 0 and request.id) or run(request)
        )
        await harness.submit("a")
        assert harness.model.runs == []
        await harness.flush()
        assert (harness.model.runs, on_disk) == (["a"], ["a"])
        assert await harness.status("a") == "processing"

    play(scene)


def test_a_run_that_the_model_did_not_hear_of_is_the_first_of_the_next_one(play):
    async def scene(harness):
        harness.model.hears = False
        await harness.submit("a")
        await harness.submit("b")
        await harness.flush()
        harness.model.takes_work, harness.model.state = False, "crashed"
        harness.dispatcher.lead.on_exit("was killed")
        assert [each.id for each in harness.dispatcher.waiting] == ["a", "b"]
        assert await harness.status("a") == "starting"
        harness.model.hears = harness.model.takes_work = True
        harness.model.state = "ready"
        harness.dispatcher.slots.advance()
        await harness.flush()
        assert harness.model.runs == ["a"]

    play(scene)


def test_what_waits_is_ended_when_the_model_is_given_up_while_it_is_written_down(play):
    async def scene(harness):
        prediction = await harness.submit("a")
        harness.model.hears, harness.model.state = False, "defunct"
        harness.model.crashes.last = "died"
        harness.dispatcher.lead.on_exit("died")
        await harness.flush()
        assert (prediction.status, "died" in prediction.error) == ("failed", True)

    play(scene)


def test_a_cancel_while_it_is_written_down_is_not_lost(play):
    async def scene(harness):
        accepting = asyncio.create_task(harness.submit("a"))
        await asyncio.sleep(0)
        assert harness.dispatcher.cancel("a")
        assert (await accepting).status == "canceled"
        beginning = await harness.submit("b")
        assert harness.dispatcher.cancel("b")
        await harness.flush()
        assert (beginning.status, harness.model.runs) == ("canceled", [])

    play(scene)


def test_of_a_dispatcher_that_has_given_up_nothing_reaches_the_model(play):
    async def scene(harness):
        running = await harness.submit("running")
        await harness.flush()
        waiting = await harness.submit("waiting")
        mortal = await harness.submit("mortal", repeatable=False)
        beginning = await harness.submit("t", "train")
        harness.dispatcher.slots.close("over")
        harness.trainings.slots.close("over")
        await harness.flush()
        assert harness.model.said[1:] == [Cancel("running", 1)]
        assert harness.trainings.lead.process.said == []
        assert (running.status, mortal.status) == ("failed", "failed")
        assert (waiting.status, beginning.status) == ("starting", "starting")
        assert await harness.status("waiting") == "starting"

    play(scene)


def test_an_id_that_another_server_has_is_refused_and_not_run(play, tmp_path):
    async def scene(harness):
        other = Harness(tmp_path)
        await other.records.register()
        await other.submit("a")
        await other.flush()
        with pytest.raises(IdInUse) as refused:
            await harness.submit("a")
        assert STATUSES[type(refused.value)] == 409
        assert harness.model.runs == []
        await other.records.close()

    play(scene)


def test_a_prediction_and_a_training_of_one_name_are_two(play):
    async def scene(harness):
        one, two = await harness.submit("x"), await harness.submit("x", "train")
        await harness.flush()
        for dispatcher in (harness.dispatcher, harness.trainings):
            dispatcher.lead.on_report(Metric("x", "score", b"1"))
            dispatcher.lead.on_report(Finished("x", "succeeded"))
        assert (one.metrics["score"], two.metrics["score"]) == (1, 1)

    play(scene)


def test_the_slot_is_free_before_the_answer_goes_out(play):
    async def scene(harness):
        prediction = await harness.submit("a", durable=False)
        slots = []
        prediction.done.add_done_callback(
            lambda _: slots.append(harness.dispatcher.lead.free_slots)
        )
        harness.dispatcher.lead.on_report(Finished("a", "succeeded"))
        await asyncio.sleep(0)
        assert slots == [1]
        assert harness.model.steady == 1

    play(scene)


def test_several_that_run_again_keep_their_order(play):
    async def scene(harness):
        harness.dispatcher.lead.slots = 2
        for name in "abc":
            await harness.submit(name, retries=1)
            await harness.flush()
        harness.model.takes_work, harness.model.state = False, "crashed"
        harness.dispatcher.lead.on_exit("was killed")
        assert [each.id for each in harness.dispatcher.waiting] == ["a", "b", "c"]
        assert [each.retries_left for each in harness.dispatcher.waiting] == [0, 0, 1]
        assert (await harness.records.get("a", "predict")).retries_left == 0

    play(scene)


def test_a_failed_setup_ends_what_waits_and_later_work_starts_the_process_again(play):
    async def scene(harness):
        harness.model.takes_work, harness.model.state = False, "starting"
        first = await harness.submit("first")
        harness.model.state = "setup failed"
        harness.dispatcher.lead.on_report(SetupFailed("no weights"))
        assert first.error == "Setup failed: no weights"
        await harness.submit("second")
        harness.model.may_start = True
        harness.dispatcher.lead.on_exit("it was stopped")
        assert harness.model.starts == 1

    play(scene)


def test_the_deadline_counts_from_the_acceptance_by_whatever_server(play):
    async def scene(harness):
        await harness.submit("blocks", durable=False)
        waiting = await harness.submit("a", timeout=0.3)
        await asyncio.wait_for(waiting.done, 10)
        assert (waiting.status, await harness.status("a")) == ("canceled", "canceled")

    play(scene)


@pytest.mark.parametrize(
    ("level", "lines"), [(logging.INFO, ["kept"]), (logging.DEBUG, ["plain", "kept"])]
)
def test_every_end_has_a_line_in_the_log_at_debug(play, monkeypatch, level, lines):
    monkeypatch.setattr(logging.root, "isEnabledFor", lambda asked: asked >= level)

    async def scene(harness):
        with structlog.testing.capture_logs() as told:
            for name in ("plain", "kept"):
                await harness.submit(name, durable=name == "kept")
                await harness.flush()
                harness.dispatcher.lead.on_report(Finished(name, "succeeded"))
        ended = [each["prediction_id"] for each in told if each["event"] == "prediction ended"]
        assert ended == lines

    play(scene)


def test_an_end_is_found_from_its_moment_on(play):
    async def scene(harness):
        await harness.submit("a", has_client_id=True)
        await harness.flush()
        harness.dispatcher.lead.on_report(Finished("a", "succeeded"))
        found = harness.records.get("a", "predict")
        with pytest.raises(StopIteration) as answer:
            found.send(None)  # in the same turn of the loop, so without a look into the database
        assert answer.value.value.status == "succeeded"

    play(scene)


def test_of_ended_predictions_only_the_events_are_kept_and_only_if_they_can_have_a_reader(play):
    async def scene(harness):
        ended = []
        for number in range(20):
            prediction = await harness.submit(f"n{number}", durable=number % 2 == 0, timeout=60.0)
            await harness.flush()
            harness.dispatcher.lead.on_report(Finished(prediction.id, "succeeded"))
            ended.append(weakref.ref(prediction))
        del prediction
        await harness.flush()
        await asyncio.sleep(0.2)  # timers that have been cancelled
        gc.collect()
        assert [each().id for each in ended if each() is not None] == []
        kept = [number for number in range(20) if harness.dispatcher.event_cache.get(f"n{number}")]
        assert kept == list(range(0, 20, 2))
        assert harness.announcer._tracking == harness.observer._open == {}

    play(scene)


def test_what_dead_servers_left_is_tried_until_it_is_taken(play, tmp_path, monkeypatch):
    monkeypatch.setattr("cog_adapt.server.service.recovery._SECONDS_BETWEEN", 0.05)

    async def scene(harness):
        dead = Harness(tmp_path)
        await dead.records.register()
        for name in "ab":
            await dead.submit(name)
        await dead.flush()
        await dead.records.close()
        fail_orphan, tried = harness.recorder.fail_orphan, []

        async def fail_late(record, error):
            tried.append(record.id)
            if len(tried) == 1:
                raise NotRecorded("the disk is full")
            await fail_orphan(record, error)

        harness.recorder.fail_orphan = fail_late
        harness.service._recovery.start()
        while await harness.status("a") != "failed" or harness.model.runs != ["b"]:
            await asyncio.sleep(0.02)
        harness.service._recovery.stop()
        assert tried == ["a", "a"]

    play(scene)

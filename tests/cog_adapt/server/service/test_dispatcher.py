"""The lane with real records; only the model process is played, so that it dies when it should."""

import asyncio
import gc
import logging
import weakref

import pytest
import structlog

from cog_adapt.server.api.body import Refused
from cog_adapt.server.egress import Egress
from cog_adapt.server.protocol import Cancel, Finished, Metric, Run, SetupFailed
from cog_adapt.server.records import Records
from cog_adapt.server.service.dispatcher import Lane
from cog_adapt.server.service.prediction import Order
from cog_adapt.server.service.recorder import Journal
from cog_adapt.server.service.service import Desk
from cog_adapt.server.settings import Settings
from cog_adapt.server.telemetry.metrics import Metrics
from cog_adapt.server.telemetry.traces import Traces
from cog_adapt.server.webhooks import Envelope, Webhooks
from cog_adapt.server.worker.config import Plan


class Model:
    """Stands where the model process stands."""

    def __init__(self):
        self.state, self.takes_work, self.hears = "ready", True, True
        self.has_been_ready, self.may_start, self.last_crash = True, False, None
        self.said, self.starts, self.steady = [], 0, 0

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

    def prove_steady(self):
        self.steady += 1

    async def stop(self):
        self.takes_work = False

    @property
    def runs(self):
        return [each.id for each in self.said if isinstance(each, Run)]


class World:
    """Lanes on a database of their own."""

    def __init__(self, folder):
        self.settings = Settings(data_dir=folder, max_queue=5)
        self.records = Records.open(None, folder)
        self.webhooks = Webhooks(self.records, Egress(()), Envelope("test", None, None))
        self.journal = Journal(self.records, self.webhooks, Metrics(), Traces.from_environment(), 0)
        self.lane, self.trainings = self.open_lane("predict"), self.open_lane("train")
        self.model = self.lane.process
        lanes = {"predict": self.lane, "train": self.trainings}
        self.desk = Desk(lanes, "predict", self.records, self.journal, self.settings)

    def open_lane(self, kind):
        lane = Lane(Plan("x.py:X", kind, concurrency=1), self.journal, self.settings)
        lane.process = Model()
        return lane

    async def submit(self, name, kind="predict", **more):
        inputs = b'{"name": "x"}'
        lane = self.lane if kind == "predict" else self.trainings
        order = Order(name, kind, inputs, inputs, **{"keeps": True, **more})
        return await lane.submit(order)

    async def status(self, name):
        found = await self.records.get(name, "predict")
        return found and found.status

    async def settle(self):
        await self.journal.settle()


@pytest.fixture
def play(tmp_path):
    """Runs a scene of the world."""

    def run(scene):
        async def story():
            world = World(tmp_path)
            await world.records.register()
            try:
                await asyncio.wait_for(scene(world), 30)
            finally:
                await world.webhooks.close()
                await world.records.close()

        asyncio.run(story())

    return run


def test_a_run_is_on_disk_before_the_model_hears_of_it(play):
    async def scene(world):
        on_disk = []
        run = world.model.run
        world.model.run = lambda request: (
            on_disk.append(world.records.waiting == 0 and request.id) or run(request)
        )
        await world.submit("a")
        assert world.model.runs == []
        await world.settle()
        assert (world.model.runs, on_disk) == (["a"], ["a"])
        assert await world.status("a") == "processing"

    play(scene)


def test_a_run_that_the_model_did_not_hear_of_is_the_first_of_the_next_one(play):
    async def scene(world):
        world.model.hears = False
        await world.submit("a")
        await world.submit("b")
        await world.settle()
        world.model.takes_work, world.model.state = False, "crashed"
        world.lane.lose("was killed")
        assert [each.id for each in world.lane.waiting] == ["a", "b"]
        assert await world.status("a") == "starting"
        world.model.hears = world.model.takes_work = True
        world.model.state = "ready"
        world.lane._advance()
        await world.settle()
        assert world.model.runs == ["a"]

    play(scene)


def test_what_waits_is_ended_when_the_model_is_given_up_while_it_is_written_down(play):
    async def scene(world):
        prediction = await world.submit("a")
        world.model.hears, world.model.state, world.model.last_crash = False, "defunct", "died"
        world.lane.lose("died")
        await world.settle()
        assert (prediction.status, "died" in prediction.error) == ("failed", True)

    play(scene)


def test_a_cancel_while_it_is_written_down_is_not_lost(play):
    async def scene(world):
        accepting = asyncio.create_task(world.submit("a"))
        await asyncio.sleep(0)
        assert world.lane.cancel("a")
        assert (await accepting).status == "canceled"
        beginning = await world.submit("b")
        assert world.lane.cancel("b")
        await world.settle()
        assert (beginning.status, world.model.runs) == ("canceled", [])

    play(scene)


def test_of_a_lane_that_has_given_up_nothing_reaches_the_model(play):
    async def scene(world):
        running = await world.submit("running")
        await world.settle()
        waiting = await world.submit("waiting")
        mortal = await world.submit("mortal", is_repeatable=False)
        beginning = await world.submit("t", "train")
        world.lane.give_up("over")
        world.trainings.give_up("over")
        await world.settle()
        assert world.model.said[1:] == [Cancel("running", 1)]
        assert world.trainings.process.said == []
        assert (running.status, mortal.status) == ("failed", "failed")
        assert (waiting.status, beginning.status) == ("starting", "starting")
        assert await world.status("waiting") == "starting"

    play(scene)


def test_an_id_that_another_server_has_is_refused_and_not_run(play, tmp_path):
    async def scene(world):
        other = World(tmp_path)
        await other.records.register()
        await other.submit("a")
        await other.settle()
        with pytest.raises(Refused) as refused:
            await world.submit("a")
        assert refused.value.status == 409
        assert world.model.runs == []
        await other.records.close()

    play(scene)


def test_a_prediction_and_a_training_of_one_name_are_two(play):
    async def scene(world):
        one, two = await world.submit("x"), await world.submit("x", "train")
        await world.settle()
        for lane in (world.lane, world.trainings):
            lane.hear(Metric("x", "score", b"1"))
            lane.hear(Finished("x", "succeeded"))
        assert (one.metrics["score"], two.metrics["score"]) == (1, 1)

    play(scene)


def test_the_slot_is_free_before_the_answer_goes_out(play):
    async def scene(world):
        prediction = await world.submit("a", keeps=False)
        slots = []
        prediction.done.add_done_callback(lambda _: slots.append(world.lane.free_slots))
        world.lane.hear(Finished("a", "succeeded"))
        await asyncio.sleep(0)
        assert slots == [1]
        assert world.model.steady == 1

    play(scene)


def test_several_that_run_again_keep_their_order(play):
    async def scene(world):
        world.lane.slots = 2
        for name in "abc":
            await world.submit(name, retries=1)
            await world.settle()
        world.model.takes_work, world.model.state = False, "crashed"
        world.lane.lose("was killed")
        assert [each.id for each in world.lane.waiting] == ["a", "b", "c"]
        assert [each.retries_left for each in world.lane.waiting] == [0, 0, 1]
        assert (await world.records.get("a", "predict")).retries_left == 0

    play(scene)


def test_a_failed_setup_ends_what_waits_and_later_work_starts_the_process_again(play):
    async def scene(world):
        world.model.takes_work, world.model.state = False, "starting"
        first = await world.submit("first")
        world.model.state = "setup failed"
        world.lane.hear(SetupFailed("no weights"))
        assert first.error == "Setup failed: no weights"
        await world.submit("second")
        world.model.may_start = True
        world.lane.lose("it was stopped")
        assert world.model.starts == 1

    play(scene)


def test_the_deadline_counts_from_the_acceptance_by_whatever_server(play):
    async def scene(world):
        await world.submit("blocks", keeps=False)
        waiting = await world.submit("a", seconds=0.3)
        await asyncio.wait_for(waiting.done, 10)
        assert (waiting.status, await world.status("a")) == ("canceled", "canceled")

    play(scene)


@pytest.mark.parametrize(
    ("level", "lines"), [(logging.INFO, ["kept"]), (logging.DEBUG, ["plain", "kept"])]
)
def test_every_end_has_a_line_in_the_log_at_debug(play, monkeypatch, level, lines):
    monkeypatch.setattr(logging.root, "isEnabledFor", lambda asked: asked >= level)

    async def scene(world):
        with structlog.testing.capture_logs() as told:
            for name in ("plain", "kept"):
                await world.submit(name, keeps=name == "kept")
                await world.settle()
                world.lane.hear(Finished(name, "succeeded"))
        ended = [each["prediction_id"] for each in told if each["event"] == "prediction ended"]
        assert ended == lines

    play(scene)


def test_an_end_is_found_from_its_moment_on(play):
    async def scene(world):
        await world.submit("a", is_named=True)
        await world.settle()
        world.lane.hear(Finished("a", "succeeded"))
        found = world.records.get("a", "predict")
        with pytest.raises(StopIteration) as answer:
            found.send(None)  # in the same turn of the loop, so without a look into the database
        assert answer.value.value.status == "succeeded"

    play(scene)


def test_of_ended_predictions_only_the_events_are_kept_and_only_if_they_can_have_a_reader(play):
    async def scene(world):
        ended = []
        for number in range(20):
            prediction = await world.submit(f"n{number}", keeps=number % 2 == 0, seconds=60.0)
            await world.settle()
            world.lane.hear(Finished(prediction.id, "succeeded"))
            ended.append(weakref.ref(prediction))
        del prediction
        await world.settle()
        await asyncio.sleep(0.2)  # timers that have been cancelled
        gc.collect()
        assert [each().id for each in ended if each() is not None] == []
        kept = [number for number in range(20) if world.lane.recent.get(f"n{number}")]
        assert kept == list(range(0, 20, 2))
        assert world.journal._told == {}

    play(scene)


def test_what_dead_servers_left_is_tried_until_it_is_taken(play, tmp_path, monkeypatch):
    monkeypatch.setattr("cog_adapt.server.service.service._TAKE_OVER_SECONDS", 0.05)

    async def scene(world):
        dead = World(tmp_path)
        await dead.records.register()
        for name in "ab":
            await dead.submit(name)
        await dead.settle()
        await dead.records.close()
        bury, tried = world.journal.bury, []

        async def bury_late(record, error):
            tried.append(record.id)
            if len(tried) == 1:
                raise Refused(503, "the disk is full")
            await bury(record, error)

        world.journal.bury = bury_late
        watch = asyncio.create_task(world.desk._take_over_again_and_again())
        while await world.status("a") != "failed" or world.model.runs != ["b"]:
            await asyncio.sleep(0.02)
        watch.cancel()
        assert tried == ["a", "a"]

    play(scene)

"""What a server does now, in figures."""

import asyncio
from datetime import UTC, datetime

import structlog

from cog_adapt.server.protocol import Gauges
from cog_adapt.server.service.figures import figures_of
from cog_adapt.server.service.gauges import sum_gauges
from tests.cog_adapt.waiting import until


def test_each_worker_has_its_slots_its_queue_and_its_crashes(play):
    async def scene(harness):
        for name in "abc":
            await harness.submit(name, durable=False)
        await harness.submit("t", "train", durable=False)
        moment = datetime(2026, 1, 2, tzinfo=UTC)
        lead, trainings = harness.dispatcher.lead, harness.trainings.lead
        lead.setup.started_at = lead.setup.completed_at = moment
        lead.crashes, lead.last_crash = 1, "was killed"
        trainings.state = "setup failed"
        trainings.setup.fail("no weights")
        figures = figures_of(harness.service)
        assert figures["queue"] == {"most": 5}
        assert figures["records"] is None
        predictor, trainer = figures["workers"]
        assert predictor == {
            "kind": "predict",
            "state": "ready",
            "slots": 1,
            "running": 1,
            "waiting": 2,
            "crashes": 1,
            "last_crash": "was killed",
            "setup": {"started_at": moment, "completed_at": moment, "error": None},
        }
        assert (trainer["kind"], trainer["state"], trainer["running"]) == (
            "train",
            "setup failed",
            1,
        )
        assert trainer["setup"]["error"] == "no weights"
        trainings.state = "idle"
        assert figures_of(harness.service)["workers"][1]["setup"]["started_at"] is None

    play(scene)


def test_the_numbers_of_several_workers_are_added(play):
    async def scene(harness):
        workers = harness.several(2)
        for number, worker in enumerate(workers, 1):

            async def ask(*_, number=number):
                return Gauges({"process_memory_bytes": 2.0 * number, f"own_{number}": 1.0})

            worker.pending.ask = ask
        assert await sum_gauges(workers) == {
            "process_memory_bytes": 6.0,
            "own_1": 1.0,
            "own_2": 1.0,
        }

    play(scene)


def test_the_memory_of_a_process_for_trainings_is_said_once_at_its_start(play):
    async def scene(harness):
        async def ask(*_):
            return Gauges({"process_memory_bytes": 5.0, "device_memory_bytes": 7.0, "other": 1.0})

        harness.dispatcher.lead.pending.ask = ask
        harness.trainings.lead.state = "idle"
        with structlog.testing.capture_logs() as lines:
            harness.trainings.start()
            harness.trainings.start()
            await until(lambda: lines)
            await asyncio.sleep(0)
        assert lines == [
            {
                "event": "a process of its own loads the model again, in as much memory",
                "log_level": "info",
                "kind": "train",
                "process_memory_bytes": 5,
                "device_memory_bytes": 7,
            }
        ]

    play(scene)

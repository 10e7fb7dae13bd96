"""What becomes of predictions when their worker reports, is set up, or dies."""

import msgspec
import pytest

from cog_adapt.server.protocol import Finished, Log, Metric, Output, Ready, SetupFailed
from cog_adapt.server.service.prediction import encode


def test_a_failed_setup_ends_what_waits_and_later_work_starts_the_process_again(play):
    async def scene(harness):
        harness.dispatcher.lead.state, harness.dispatcher.lead.ready = "starting", None
        first = await harness.submit("first")
        harness.dispatcher.lead.on_report(SetupFailed("no weights"))
        assert first.error == "Setup failed: no weights"
        await harness.submit("second")
        assert harness.model.starts == 1
        harness.crash()
        assert harness.model.starts == 2

    play(scene)


def test_a_prediction_that_ends_begins_a_new_row_of_crashes(play):
    async def scene(harness):
        for _ in range(2):
            await harness.submit("a", durable=False)
            harness.dispatcher.lead.on_report(Finished("a", "succeeded"))
            harness.crash()
            assert harness.dispatcher.lead.state == "crashed"
            await harness.set_up_again()

    play(scene, max_crashes=2)


def test_outputs_and_logs_are_announced_and_metrics_are_counted(play):
    async def scene(harness):
        announced, counted = [], []
        prediction = await harness.submit("a", durable=False)
        harness.recorder.on_output = lambda each: announced.append(("output", each))
        harness.recorder.on_log = lambda each: announced.append(("log", each))
        harness.observer.on_metric = lambda *each: counted.append(each)
        lead = harness.dispatcher.lead
        lead.on_report(Output("a", b"1"))
        lead.on_report(Log("a", "stdout", "x"))
        lead.on_report(Metric("a", "m", b"2"))
        assert announced == [("output", prediction), ("log", prediction)]
        assert counted == [(prediction, "m", 2)]

    play(scene)


def test_reports_of_what_has_ended_change_nothing(play):
    async def scene(harness):
        prediction = await harness.submit("a", durable=False)
        lead = harness.dispatcher.lead
        lead.on_report(Finished("a", "canceled"))
        lead.on_report(Output("a", b"1"))
        lead.on_report(Finished("a", "succeeded"))
        assert (prediction.status, prediction.outputs) == ("canceled", [])

    play(scene)


def test_a_ready_worker_gets_what_waits_and_is_counted(play):
    async def scene(harness):
        harness.model.takes_work = False
        await harness.submit("a", durable=False)
        harness.model.takes_work = True
        counted = []
        harness.observer.set_up = lambda report, is_again, worker: counted.append(
            (report, is_again)
        )
        harness.crash()
        await harness.set_up_again(Ready(b"{}"))
        assert harness.model.runs == ["a"]
        assert counted == [(b"{}", True)]

    play(scene)


@pytest.mark.parametrize(
    ("state", "crashes"), [("ready", 1), ("defunct", 1), ("stopped", 0), ("setup failed", 0)]
)
def test_only_a_crash_counts_as_one(play, state, crashes):
    async def scene(harness):
        counted = []
        harness.observer.crashed = lambda worker: counted.append(1)
        harness.dispatcher.lead.state = state
        harness.crash()
        assert len(counted) == crashes
        assert harness.model.starts == 1  # nothing waits for it

    play(scene)


def test_what_ran_in_a_dead_worker_has_failed_or_was_cancelled_or_waits_again(play):
    async def scene(harness):
        harness.dispatcher.lead.slots = 4
        options = {"fails": {}, "cancelled": {"retries": 1}, "again": {"retries": 1}}
        ran = {
            name: await harness.submit(name, durable=False, **more)
            for name, more in options.items()
        }
        harness.dispatcher.cancel("cancelled")
        ran["again"].add_output(b"1")
        ran["again"].add_log("stdout", "a line")
        ran["again"].add_metric("m", b"1", "replace")
        harness.crash()
        assert [each.status for each in ran.values()] == ["failed", "canceled", "starting"]
        assert ran["fails"].error == "Worker crashed: the model process was killed"
        assert (ran["again"].retries_left, ran["again"].outputs) == (0, [])
        again = msgspec.json.decode(encode(ran["again"].account()))
        assert again == {"id": "again", "status": "starting", "logs": "", "metrics": {}}
        assert list(harness.dispatcher.waiting) == [ran["again"]]
        assert harness.dispatcher.lead.running == {}

    play(scene)


def test_what_ran_beside_a_prediction_that_was_ended_is_not_to_blame(play):
    async def scene(harness):
        harness.dispatcher.lead.slots = 2
        beside = await harness.submit("beside", durable=False, retries=2)
        rude = await harness.submit("rude", durable=False, retries=2)
        harness.dispatcher.cancel("rude")
        harness.dispatcher.lead.replace("was killed for it")
        harness.crash("was killed for it")
        assert (rude.status, beside.status) == ("canceled", "starting")
        assert (beside.crashes, list(harness.dispatcher.waiting)) == (0, [beside])

    play(scene)


def test_a_failed_setup_of_one_of_two_workers_leaves_what_waits_to_the_other(play):
    async def scene(harness):
        first, second = harness.several(2)
        for each in (first, second):
            each.state, each.ready = "starting", None
        waiting = await harness.submit("waiting", durable=False)
        first.on_report(SetupFailed("no memory on the device"))
        assert waiting.status == "starting"
        harness.model.exited.set()
        first.on_exit("was stopped")
        harness.dispatcher.start()  # as each request does
        assert (first.state, second.state) == ("setup failed", "starting")
        second.on_report(Ready())
        assert list(second.running) == ["waiting"]
        assert harness.dispatcher.slots.count == 4  # of the worker that is left
        assert harness.dispatcher.lead is second

    play(scene)


def test_once_the_last_of_two_setups_has_failed_what_waits_fails(play):
    async def scene(harness):
        workers = harness.several(2)
        for each in workers:
            each.state, each.ready = "starting", None
        waiting = await harness.submit("waiting", durable=False)
        for each in workers:
            each.on_report(SetupFailed("no weights"))
        assert waiting.error == "Setup failed: no weights"

    play(scene)


def test_a_worker_that_dies_leaves_its_work_to_the_other_at_once(play):
    async def scene(harness):
        first, second = harness.several(2, slots=1)
        await harness.submit("a", durable=False, retries=1)
        await harness.submit("b", durable=False)
        harness.model.takes_work = False
        harness.model.exited.set()
        first.on_exit("was killed")
        harness.dispatcher.end(second.running["b"], Finished("b", "succeeded"))
        assert (list(first.running), list(second.running)) == ([], ["a"])
        second.state, second.last_crash = "defunct", "died"
        first.state = "setup failed"
        assert harness.dispatcher.slots.given_up == "the model process has given up: died"

    play(scene)

"""Predictions that wait, and the workers that run them."""

import json

from cog_adapt.server.protocol import OWNER_KEY, Cancel, Finished
from tests.cog_adapt.server.service.harness import events_of


async def fill(harness, names, slots):
    """Let requests wait, each of the owner before its slash; then open the slots."""
    harness.model.takes_work = False
    for each in names:
        owner, _, name = each.rpartition("/")
        context = {OWNER_KEY: owner} if owner else {}
        await harness.submit(name, durable=False, context=context)
    harness.dispatcher.lead.slots, harness.model.takes_work = slots, True
    harness.dispatcher.slots.advance()


def end(harness, run_id):
    """End a run, so that its slot is free."""
    run = harness.dispatcher.lead.running[run_id]
    harness.dispatcher.end(run, Finished(run.id, "succeeded"))


def end_all(harness):
    """End what runs, the first to start first, until nothing does."""
    while running := list(harness.dispatcher.lead.running):
        end(harness, running[0])


def test_requests_without_an_owner_may_take_every_slot_and_one_owner_leaves_a_quarter(play):
    async def scene(harness):
        harness.dispatcher.waiting.most = 20
        await fill(harness, "abcdefghi", slots=8)
        assert len(harness.dispatcher.lead.running) == 8
        end_all(harness)
        await fill(harness, [f"ada/{name}" for name in "jklmnopqr"], slots=8)
        assert len(harness.dispatcher.lead.running) == 6

    play(scene)


def test_a_run_that_the_model_did_not_hear_of_is_the_first_of_the_next_one(play):
    async def scene(harness):
        harness.model.hears = False
        await harness.submit("a")
        await harness.submit("b")
        await harness.flush()
        harness.crash()
        assert [each.id for each in harness.dispatcher.waiting] == ["a", "b"]
        assert await harness.status("a") == "starting"
        await harness.set_up_again()
        await harness.flush()
        assert harness.model.runs == ["a"]

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
        assert harness.model.said[1:] == [Cancel("running")]
        assert harness.played["train"].said == []
        assert (running.status, mortal.status) == ("failed", "failed")
        assert (waiting.status, beginning.status) == ("starting", "starting")
        assert await harness.status("waiting") == "starting"

    play(scene)


def test_where_nobody_can_wait_one_owner_may_take_every_slot(play):
    async def scene(harness):
        harness.dispatcher.waiting.most, harness.dispatcher.lead.slots = 0, 4
        for name in "abcd":
            await harness.submit(name, durable=False, context={OWNER_KEY: "one"})
        assert len(harness.dispatcher.lead.running) == 4

    play(scene)


def test_predictions_go_to_any_worker_with_a_free_slot(play):
    async def scene(harness):
        slots, lead, process = harness.dispatcher.slots, harness.dispatcher.lead, harness.model
        second = harness.open_dispatcher("predict").lead
        slots.workers.append(second)
        second.slots = 2
        assert slots.count == 3
        for name in "abcd":
            await harness.submit(name, durable=False)
        assert [list(worker.running) for worker in slots.workers] == [["a"], ["b", "c"]]
        assert [each.id for each in slots.waiting] == ["d"]
        process.takes_work = False
        harness.dispatcher.end(slots.workers[0].running["a"], Finished("a", "succeeded"))
        assert [each.id for each in slots.waiting] == ["d"]
        lead.state = "defunct"
        assert slots.given_up is None  # one of two may still work
        second.state = "defunct"
        lead.last_crash = "died"
        assert slots.given_up == "the model process has given up: died"

    play(scene)


def test_who_waits_gets_a_new_place_when_one_begins(play):
    async def scene(harness):
        for name in "abc":
            await harness.submit(name, durable=False)
        last = harness.dispatcher.waiting[-1]
        harness.dispatcher.end(harness.dispatcher.lead.running["a"], Finished("a", "succeeded"))
        places = [json.loads(each.data) for each in events_of(last) if each.name == "queued"]
        assert places == [{"position": 2}, {"position": 1}]

    play(scene)


def test_a_process_that_does_not_hear_ends_the_handing_out(play):
    async def scene(harness):
        harness.dispatcher.lead.slots = 2
        harness.model.hears = False
        first = await harness.submit("a", durable=False)
        await harness.submit("b", durable=False)
        assert [each.id for each in harness.dispatcher.waiting] == ["a", "b"]
        assert first.status == "starting"

    play(scene)


def test_what_begins_counts_for_its_owner(play):
    async def scene(harness):
        lead, context = harness.dispatcher.lead, {OWNER_KEY: "ann"}
        harness.model.takes_work = False
        for name in "ab":
            await harness.submit(name, context=context)
        await harness.submit("a", context={OWNER_KEY: "bob"})
        lead.slots, harness.model.takes_work = 2, True
        harness.dispatcher.slots.advance()
        assert list(lead.beginning) == ["ann/a", "bob/a"]
        await harness.flush()

    play(scene)


def test_nothing_is_chosen_while_all_slots_are_taken(play, monkeypatch):
    async def scene(harness):
        await fill(harness, "ab", slots=1)
        monkeypatch.delattr("cog_adapt.server.service.slots.Queue.choose")
        await harness.submit("c", durable=False)
        assert harness.model.runs == ["a"]

    play(scene)

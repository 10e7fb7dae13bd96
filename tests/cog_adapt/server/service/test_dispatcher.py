"""The dispatcher with real records; only the worker is played, so that it dies when it should."""

import asyncio
import gc
import weakref
from typing import Any

import pytest

from cog_adapt.server.api.responses import STATUSES
from cog_adapt.server.errors import (
    AtCapacity,
    BudgetSpent,
    DiskFull,
    NotReady,
    QueueFull,
    TooLarge,
)
from cog_adapt.server.protocol import OWNER_KEY, Cancel, Finished, Log, Output
from cog_adapt.server.records.space import SpaceUse
from cog_adapt.server.service.prediction import PredictionSpec
from cog_adapt.server.settings import Settings
from cog_adapt.server.shares.budget import MemoryBudgets
from tests.cog_adapt.server.service.harness import events_of
from tests.cog_adapt.waiting import assert_stays_so, until


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

        def is_collected():
            gc.collect()
            return not any(each() for each in ended)

        await until(is_collected)  # timers that have been cancelled hold them for a moment
        kept = [number for number in range(20) if harness.dispatcher.event_cache.get(f"n{number}")]
        assert kept == list(range(0, 20, 2))

    play(scene)


@pytest.mark.parametrize(
    ("strict", "most", "error", "reason"),
    [
        (False, 1, QueueFull, "queue full"),
        (False, 0, AtCapacity, "busy"),
        (True, 1, AtCapacity, "busy"),
    ],
)
def test_what_has_no_room_is_refused_and_counted(play, strict, most, error, reason):
    async def scene(harness):
        harness.settings = Settings(max_queue=most, strict_cog=strict)
        counted: list[Any]
        harness.dispatcher, counted = harness.open_dispatcher("predict"), []
        harness.observer.rejected = counted.append
        room = 1 if strict else 1 + most
        for number in range(room):
            await harness.submit(f"p{number}", durable=False)
        with pytest.raises(error):
            await harness.submit("more", durable=False)
        assert counted == [reason]
        request = PredictionSpec("found", "predict", b"{}", b"{}")
        await harness.dispatcher.submit(request, is_recovered=True)
        assert len(harness.dispatcher.predictions) == room + 1

    play(scene)


def test_the_end_of_a_run_that_was_given_up_is_not_that_of_the_run_that_comes_back(play):
    async def scene(harness):
        given_up = await harness.submit("a")
        await until(lambda: harness.model.runs)
        harness.dispatcher.drop_moved(given_up)  # another server has taken it
        back = await harness.dispatcher.submit(given_up.request, is_recovered=True)
        await until(lambda: len(harness.model.runs) == 2)
        first, second = harness.model.runs
        harness.dispatcher.lead.on_report(Finished(first, "canceled"))
        assert back.status == "processing"
        harness.dispatcher.lead.on_report(Finished(second, "succeeded"))
        assert (back.status, back.id) == ("succeeded", "a")
        await harness.flush()

    play(scene)


def test_what_another_server_had_waits_before_what_was_accepted_later(play):
    async def scene(harness):
        for name in ("runs", "waits", "last"):
            await harness.submit(name)
        runs, waits, last = harness.dispatcher.predictions.values()
        older = PredictionSpec("older", "predict", b"{}", b"{}", created_at=runs.created_at)
        newest = PredictionSpec("newest", "predict", b"{}", b"{}", created_at=last.created_at)
        for each in (newest, older):
            await harness.dispatcher.submit(each, is_recovered=True)
        assert [each.id for each in harness.dispatcher.waiting] == [
            "older",
            "waits",
            "last",
            "newest",
        ]
        assert b'{"position":2}' in [each.data for each in events_of(waits)]

    play(scene)


def test_a_worker_that_is_given_up_takes_nothing(play):
    async def scene(harness):
        harness.dispatcher.lead.state, harness.dispatcher.lead.last_crash = "defunct", "died"
        with pytest.raises(NotReady, match="the model process has given up: died"):
            await harness.submit("a")

    play(scene)


@pytest.mark.parametrize("part", ["recorder", "observer"])
def test_what_fails_while_it_is_accepted_takes_no_room(play, part):
    async def scene(harness):
        async def accept(*_, **__):
            raise ZeroDivisionError

        def accepted(_):
            raise ZeroDivisionError

        setattr(
            *((harness.recorder, "accept", accept), (harness.observer, "accepted", accepted))[
                part == "observer"
            ]
        )
        with pytest.raises(ZeroDivisionError):
            await harness.submit("a")
        assert harness.dispatcher.predictions == {}

    play(scene)


def test_waiting_inputs_are_limited_in_bytes(play):
    async def scene(harness):
        harness.settings = Settings(max_queue=9, queue_bytes=80)
        counted: list[Any] = []
        harness.budgets = MemoryBudgets.of(harness.settings)
        harness.dispatcher = harness.open_dispatcher("predict")
        harness.observer.rejected = counted.append
        inputs = b'{"name": "x"}'  # 13 bytes, kept twice
        for number in range(3):
            await harness.submit(f"p{number}")
        with pytest.raises(BudgetSpent, match="QUEUE_BYTES") as refused:
            await harness.submit("more")
        assert STATUSES[type(refused.value)] == 429
        with pytest.raises(TooLarge):
            await harness.submit("large", input=b"x" * 81)
        assert (counted, harness.budgets.queue.used) == (["queue bytes"] * 2, 78)
        assert harness.dispatcher.cancel("p2")
        await harness.submit("again")
        recovered = PredictionSpec("old", "predict", inputs, inputs)
        await harness.dispatcher.submit(recovered, is_recovered=True)
        for name in ("p0", "p1", "again", "old"):
            run = harness.dispatcher.find(name).run_id
            harness.dispatcher.cancel(name)
            harness.dispatcher.lead.on_report(Finished(run, "canceled"))
            await harness.flush()
        assert harness.budgets.queue.used == 0

    play(scene)


def test_no_two_runs_have_one_id():
    """Without keys, ids of plain Cog may have slashes."""
    asked = [("a/b", ""), ("b", "a"), ("/b", "a"), ("b", ""), ("/a/b", "")]
    requests = [
        PredictionSpec(name, "predict", b"{}", b"{}", {OWNER_KEY: owner} if owner else {})
        for name, owner in asked
    ]
    assert len({request.run_id for request in requests}) == len(asked)


def test_one_owner_cannot_fill_the_queue(play):
    async def scene(harness):
        harness.settings = Settings(max_queue=9, queue_bytes=120)
        harness.budgets = MemoryBudgets.of(harness.settings)
        harness.dispatcher = harness.open_dispatcher("predict")
        await harness.submit("a", context={OWNER_KEY: "ann"})
        await harness.submit("b", context={OWNER_KEY: "ann"})
        with pytest.raises(BudgetSpent, match="your 52 bytes"):
            await harness.submit("c", context={OWNER_KEY: "ann"})
        await harness.submit("d", context={OWNER_KEY: "bob"})

    play(scene)


def test_what_puts_out_too_much_is_ended_under_its_owners_name(play):
    async def scene(harness):
        harness.settings = Settings(answer_bytes=20)  # of which ann has half
        harness.budgets = MemoryBudgets.of(harness.settings)
        harness.dispatcher = harness.open_dispatcher("predict")
        lead, context = harness.dispatcher.lead, {OWNER_KEY: "ann"}
        prediction = await harness.submit("a", durable=False, context=context)
        lead.on_report(Output("ann/a", b'"12345"'))
        lead.on_report(Log("ann/a", "stdout", "abcd"))
        lead.on_report(Output("ann/a", b'"6"'))
        assert harness.played["predict"].said[-1] == Cancel("ann/a")
        lead.on_report(Finished("ann/a", "canceled"))
        assert (prediction.status, bytes(prediction.output)) == ("failed", b'"12345"')
        assert "11 bytes are more than the 10" in prediction.error
        assert "ANSWER_BYTES" in prediction.error
        assert harness.budgets.answers.used == harness.budgets.queue.used == 0

    play(scene)


def test_an_owners_share_of_the_records_is_refused_to_this_owner(play):
    async def scene(harness):
        harness.records.space.set(SpaceUse(490, {"ann": 490}))
        with pytest.raises(DiskFull, match="your 490 bytes"):
            await harness.submit("a", context={OWNER_KEY: "ann"})
        await harness.submit("a", context={OWNER_KEY: "bob"})

    play(scene, record_bytes=1000, owner_share=0.5)


def test_a_cancel_without_effect_ends_the_worker_after_its_grace(play):
    async def scene(harness):
        await harness.submit("rude", durable=False)
        harness.dispatcher.cancel("rude")
        harness.dispatcher.cancel("rude")
        assert harness.model.kills == []
        await until(lambda: harness.model.kills)
        assert harness.model.kills == [
            "was killed, because a cancelled prediction in it did not end within "
            "0.1 s (CANCEL_GRACE_SECONDS)"
        ]

    play(scene, cancel_grace_seconds=0.1)


def test_a_cancel_that_is_heeded_ends_no_worker(play):
    async def scene(harness):
        prediction = await harness.submit("a", durable=False)
        harness.dispatcher.cancel("a")
        harness.dispatcher.end(prediction, Finished("a", "canceled"))
        again = await harness.submit("a", durable=False)
        await assert_stays_so(lambda: not harness.model.kills, 0.1)
        assert again.status == "processing"

    play(scene, cancel_grace_seconds=0.05)


def test_what_the_disk_has_no_room_for_is_refused_and_not_run(play):
    async def scene(harness):
        counted: list[Any] = []
        harness.observer.rejected = counted.append
        with pytest.raises(DiskFull, match="RECORD_BYTES") as refused:
            await harness.submit("a")
        assert (STATUSES[type(refused.value)], counted) == (507, ["disk full"])
        assert (harness.model.runs, harness.budgets.queue.used) == ([], 0)

    play(scene, record_bytes=10)

"""Which dispatcher serves what, what is in flight, and how all of it ends."""

import asyncio
import time

import msgspec
import pytest

from cog_adapt.server.protocol import Described, Finished, Kind, Ready
from cog_adapt.server.schema.openapi import openapi_schema
from cog_adapt.server.service.service import PredictionService
from cog_adapt.server.settings import Settings
from tests.cog_adapt.waiting import assert_stays_so, until


def predict(text: str) -> str:
    return text


SCHEMA = msgspec.json.encode(openapi_schema(predict))


@pytest.mark.parametrize(
    ("state", "has_been_ready", "is_ready"),
    [
        ("ready", True, True),
        ("crashed", True, True),
        ("starting", True, True),
        ("starting", False, False),
        ("setup failed", False, False),
        ("defunct", True, False),
        ("stopped", True, False),
    ],
)
def test_a_crash_that_is_being_mended_is_no_unreadiness(play, state, has_been_ready, is_ready):
    async def scene(harness):
        lead = harness.dispatcher.lead
        lead.state, lead.ready = state, Ready() if has_been_ready else None
        assert harness.service.is_ready is is_ready

    play(scene)


def test_who_asks_too_late_is_told_so_and_where_to_read_more(play):
    async def scene(harness):
        harness.dispatcher.lead.state = "defunct"
        words = "The model process has died too often, so nothing can run now; it is tr"
        assert harness.service.why_not_ready.startswith(words)
        assert "GET /health-check" in harness.service.why_not_ready
        harness.service.drain(0)
        assert harness.service.why_not_ready.startswith("The server is shutting down. Send")

    play(scene)


@pytest.mark.parametrize(("strict", "mode"), [(True, "train"), (False, "train"), (True, "predict")])
def test_only_cogs_server_that_trains_trains_whatever_the_path(play, strict, mode):
    async def scene(harness):
        only = {mode: harness.trainings}
        service = PredictionService(
            only, mode, harness.records, harness.recorder, Settings(strict_cog=strict)
        )
        other: Kind = "predict" if mode == "train" else "train"
        assert service.dispatcher(mode) is harness.trainings
        expected = harness.trainings if strict and mode == "train" else None
        assert service.dispatcher(other) is expected

    play(scene)


def test_events_of_what_ended_lately_are_found_by_id_and_kind(play):
    async def scene(harness):
        await harness.submit("a", durable=False, has_client_id=True)
        harness.dispatcher.end(harness.service.find("a"), Finished("a", "succeeded"))
        service = harness.service
        assert service.find_cached("a", "predict").events.is_closed
        assert service.find_cached("a", "train") is None
        del service.dispatchers["train"]
        assert service.find_cached("a", "train") is None

    play(scene)


def test_a_cancel_reaches_every_kind(play):
    async def scene(harness):
        both = [await harness.submit("a", kind, durable=False) for kind in ("predict", "train")]
        assert harness.service.cancel("a") is True
        assert [each.is_cancelled for each in both] == [True, True]
        assert harness.service.cancel("b") is False

    play(scene)


def test_inputs_are_checked_by_the_schema_and_the_limit_that_is_set(play):
    async def scene(harness):
        harness.settings = Settings(max_string_length=3)
        service = PredictionService(
            harness.service.dispatchers,
            "predict",
            harness.records,
            harness.recorder,
            harness.settings,
        )
        harness.dispatcher.lead.description = Described(SCHEMA, 1, is_async=False)
        validator = service.validator("predict")
        assert validator is service.validator("predict")
        assert validator.problems({"text": "abc"}) == []
        assert validator.problems({"text": "abcd"})
        with pytest.raises(KeyError):
            service.validator("train")

    play(scene)


def test_open_starts_the_main_worker_and_looks_for_what_was_left(play):
    async def scene(harness):
        looks = []

        async def take_over():
            looks.append(1)
            return []

        harness.records.take_over = take_over
        for dispatcher in (harness.dispatcher, harness.trainings):
            dispatcher.lead.state = "idle"
        harness.service.open()
        assert [each.starts for each in harness.played.values()] == [2, 1]
        await until(lambda: looks)

    play(scene)


def test_a_drain_waits_for_what_is_in_flight_and_stops_looking_for_more(play, short_sleeps):
    async def scene(harness):
        service, looks = harness.service, []

        async def take_over():
            looks.append(1)
            return []

        harness.records.take_over = take_over
        service.open()
        prediction = await harness.submit("a", durable=False)
        assert not service.is_closing
        closing = asyncio.create_task(service.close(None))
        await until(lambda: service.is_closing)
        await asyncio.sleep(0)
        looked = len(looks)
        await assert_stays_so(lambda: not closing.done() and len(looks) == looked, 0.2)
        harness.dispatcher.lead.on_report(Finished("a", "succeeded"))
        await closing
        assert prediction.status == "succeeded"
        assert not any(each.lead.takes_work for each in service.dispatchers.values())

    play(scene)


@pytest.mark.parametrize(("seconds", "state"), [(0.1, "ready"), (None, "setup failed")])
def test_a_drain_ends_in_time_or_where_nothing_can_end(play, seconds, state):
    async def scene(harness):
        prediction = await harness.submit("a", durable=False)
        training = await harness.submit("t", "train", durable=False)
        harness.dispatcher.lead.state = state
        began = time.monotonic()
        await harness.service.close(seconds)
        assert time.monotonic() - began < 5
        assert prediction.error == training.error == "The server was shut down before it ended."

    play(scene)


def test_a_drain_that_goes_on_takes_no_other_limit_but_can_be_given_up(play):
    async def scene(harness):
        prediction = await harness.submit("a", durable=False)
        harness.service.drain(None)
        harness.service.drain(0.0)
        await assert_stays_so(lambda: not prediction.is_final, 0.05)
        harness.service.give_up()
        await harness.service.close(None)
        assert prediction.status == "failed"

    play(scene)


def test_giving_up_without_a_drain_is_one_without_time(play):
    async def scene(harness):
        prediction = await harness.submit("a", durable=False)
        harness.service.give_up()
        await asyncio.wait_for(asyncio.shield(prediction.done), 5)
        assert prediction.status == "failed"

    play(scene)


def test_the_close_waits_until_every_end_is_written(play):
    async def scene(harness):
        prediction = await harness.submit("a", repeatable=False)
        await harness.service.close(0.0)
        assert prediction.written.done()
        assert await harness.status("a") == "failed"

    play(scene)

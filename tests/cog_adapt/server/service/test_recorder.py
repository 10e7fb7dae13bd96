"""Every change of a prediction is in the database, with the webhook that its end owes."""

import asyncio
import contextlib
import sqlite3
from typing import Any

import msgspec
import pytest

from cog_adapt.server.errors import IdInUse, NotRecorded, StorageError, TakenOverError
from cog_adapt.server.protocol import Finished
from cog_adapt.server.service import recorder
from cog_adapt.server.service.prediction import PredictionSpec
from tests.cog_adapt.waiting import assert_stays_so, until


def test_a_run_is_on_disk_before_the_model_hears_of_it(play, tmp_path):
    def on_disk():
        with contextlib.closing(sqlite3.connect(tmp_path / "records.db")) as connection:
            return connection.execute("SELECT id, status FROM records").fetchall()

    async def scene(harness):
        found: Any = []
        send = harness.model.send
        harness.model.send = lambda request: found.append(on_disk()) or send(request)
        await harness.submit("a")
        assert harness.model.runs == []
        await harness.flush()
        assert (harness.model.runs, found) == (["a"], [[("a", "processing")]])
        assert await harness.status("a") == "processing"

    play(scene)


def test_an_end_is_found_before_it_is_committed(play, tmp_path):
    async def scene(harness):
        await harness.submit("a", has_client_id=True)
        await harness.flush()
        with contextlib.closing(sqlite3.connect(tmp_path / "records.db")) as other:
            other.execute("BEGIN IMMEDIATE")  # so that nobody else can commit
            harness.dispatcher.lead.on_report(Finished("a", "succeeded"))
            assert await harness.status("a") == "succeeded"
            (status,) = other.execute("SELECT status FROM records").fetchone()
            assert status == "processing"

    play(scene)


URL = "http://127.0.0.1:9/"


def wrap(harness, **answers):
    """Let calls of the database raise what is given instead."""
    for name, error in answers.items():

        async def fail(*_, error=error):
            raise error

        setattr(harness.records, name, fail)


@pytest.mark.parametrize(
    ("error", "refusal", "text"),
    [
        (TakenOverError("x"), IdInUse, "id 'a' is in use at another server."),
        (StorageError("full"), NotRecorded, "the prediction cannot be recorded: full"),
    ],
)
def test_what_cannot_be_kept_is_not_accepted(play, error, refusal, text):
    async def scene(harness):
        wrap(harness, save_durably=error)
        with pytest.raises(refusal) as caught:
            await harness.submit("a", webhook=URL)
        assert str(caught.value) == text

    play(scene)


def test_what_a_client_waits_for_is_written_only_if_it_lasts(play, monkeypatch):
    async def scene(harness):
        short = await harness.submit("short", durable=False)
        harness.dispatcher.lead.on_report(Finished("short", "succeeded"))
        await harness.submit("long", durable=False)
        saved: Any = []
        save = harness.records.save
        harness.records.save = lambda record: saved.append(record.id) or save(record)
        await until(lambda: saved)
        await assert_stays_so(lambda: saved == ["long"], 0.1)
        assert short.is_final

    play(scene)


def test_what_was_found_after_a_restart_is_written_without_waiting(play):
    async def scene(harness):
        wrap(harness, save_durably=StorageError("full"))
        saved: list[Any] = []
        harness.records.save = saved.append
        request = PredictionSpec("a", "predict", b"{}", b"{}", durable=True, repeatable=False)
        await harness.dispatcher.submit(request, is_recovered=True)
        assert [(each.id, each.status) for each in saved] == [
            ("a", "starting"),
            ("a", "processing"),
        ]

    play(scene)


def test_a_beginning_that_cannot_be_written_begins_all_the_same(play):
    async def scene(harness):
        await harness.submit("block", durable=False)
        await harness.submit("a")
        wrap(harness, save_durably=StorageError("full"))
        harness.dispatcher.lead.on_report(Finished("block", "succeeded"))
        await harness.flush()
        assert harness.model.runs == ["block", "a"]

    play(scene)


def test_where_others_share_the_database_a_beginning_waits_until_it_is_written(play, monkeypatch):
    monkeypatch.setattr(recorder, "RETRY_SECONDS", 0.01)

    async def scene(harness):
        harness.records.peers.is_shared = True
        await harness.submit("block", durable=False)
        canceled = await harness.submit("a")
        await harness.submit("b")
        save = harness.records.save_durably
        wrap(harness, save_durably=StorageError("restarting"))
        harness.dispatcher.lead.on_report(Finished("block", "succeeded"))
        await assert_stays_so(lambda: harness.model.runs == ["block"], 0.1)
        harness.dispatcher.cancel("a")
        await until(lambda: canceled.status == "canceled")
        harness.records.save_durably = save
        await until(lambda: harness.model.runs == ["block", "b"])

    play(scene)


def test_a_beginning_that_is_another_servers_is_left_to_it(play):
    async def scene(harness):
        await harness.submit("block", durable=False)
        taken = await harness.submit("a")
        wrap(harness, save_durably=TakenOverError("x"))
        harness.dispatcher.lead.on_report(Finished("block", "succeeded"))
        await harness.flush()
        assert harness.model.runs == ["block"]
        assert (taken.has_moved, taken.status) == (True, "starting")  # it has no end here
        assert harness.dispatcher.find("a") is None

    play(scene)


@pytest.mark.parametrize(
    ("request_of", "is_at_once", "owed"),
    [
        ({"durable": False}, False, 0),
        ({"durable": True}, True, 0),
        ({"durable": False, "has_client_id": True}, True, 0),
        ({"durable": False, "webhook": URL}, True, 1),
        ({"durable": False, "webhook": URL, "events": frozenset({"start"})}, False, 0),
    ],
)
def test_an_end_is_written_at_once_where_somebody_may_ask_for_it(
    play, request_of, is_at_once, owed
):
    async def scene(harness):
        harness.webhooks.announce = harness.webhooks.complete = lambda _: None
        prediction = await harness.submit("a", **request_of)
        await harness.flush()
        harness.dispatcher.lead.on_report(Finished("a", "succeeded"))
        assert (prediction.written is not None) is is_at_once
        await harness.flush()
        assert len(await harness.records.deliveries("a", "predict")) == owed

    play(scene)


@pytest.mark.parametrize(
    ("error", "is_saved_later"), [(StorageError("full"), True), (TakenOverError("x"), False)]
)
def test_an_end_that_cannot_be_written_now_is_written_later_unless_another_server_has_it(
    play, error, is_saved_later
):
    async def scene(harness):
        completed: list[Any]
        completed, later, errors = [], [], []
        harness.webhooks.announce, harness.webhooks.complete = lambda _: None, completed.append
        harness.observer.record_error = lambda: errors.append(1)
        await harness.submit("a", durable=False, webhook=URL)
        failed = asyncio.get_running_loop().create_future()
        failed.set_exception(error)
        harness.records.save_at_once = lambda *_: failed
        harness.records.save = lambda record, deliveries=(): later.append((record.id, deliveries))
        harness.dispatcher.lead.on_report(Finished("a", "succeeded"))
        await harness.flush()
        assert (len(completed), len(errors), len(later)) == (is_saved_later,) * 3
        if is_saved_later:
            assert later == [("a", completed)]

    play(scene)


def test_what_a_server_cannot_run_is_saved_once_it_has_begun(play):
    async def scene(harness):
        saved: list[Any] = []
        harness.records.save = saved.append
        await harness.submit("a", repeatable=False)
        assert [(each.id, each.status) for each in saved] == [("a", "processing")]
        harness.dispatcher.lead.on_report(Finished("a", "succeeded"))
        await harness.submit("b", durable=False)
        assert len(saved) == 1

    play(scene)


@pytest.mark.parametrize("events", [None, ("completed",), ("start",)])
def test_what_is_left_of_a_dead_server_ends_as_failed_with_its_webhook(play, events):
    async def scene(harness):
        completed: list[Any] = []
        harness.webhooks.complete = completed.append
        prediction = await harness.submit("a", webhook=events and URL)
        record = msgspec.structs.replace(
            await harness.records.get("a", "predict"), webhook_events=events
        )
        await harness.recorder.fail_orphan(record, "The server ended.")
        found = await harness.records.get("a", "predict")
        assert (found.status, found.error, found.payload) == ("failed", "The server ended.", None)
        assert found.completed_at >= prediction.created_at
        owed = await harness.records.deliveries("a", "predict")
        assert [each.id for each in owed] == [each.id for each in completed]
        assert len(owed) == (events == ("completed",))

    play(scene)


def test_what_waits_again_is_recorded_so(play):
    async def scene(harness):
        saved: list[Any]
        prediction, saved = await harness.submit("a", durable=False), []
        harness.records.save = saved.append
        harness.recorder.requeued(prediction)
        assert [each.id for each in saved] == ["a"]
        harness.dispatcher.lead.on_report(Finished("a", "succeeded"))
        assert [each.status for each in saved[1:]] == ["succeeded"]

    play(scene)

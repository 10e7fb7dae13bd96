"""POST, PUT and cancellation of predictions and trainings."""

import asyncio
import json

import msgspec
import pytest

from cog_adapt.server.errors import StorageError
from cog_adapt.server.middleware.keys import Key
from cog_adapt.server.protocol import OWNER_KEY
from cog_adapt.server.service import events
from cog_adapt.server.service.mapping import to_record
from tests.cog_adapt.waiting import assert_stays_so, until

BODY = {"input": {"text": "a"}}


def read(answer):
    return json.loads(answer.body)


def test_after_the_answer_nobody_watches(play):
    async def scene(site):
        before = asyncio.all_tasks()
        asking = site.asking("PUT", "/predictions/a", BODY)
        await until(lambda: site.model.runs)
        await until(lambda: len(asyncio.all_tasks() - before) > 1)  # beside the request itself
        site.put_out("a")
        await asking
        asking = site.asking("PUT", "/predictions/b", BODY)
        await until(lambda: len(site.model.runs) == 2)
        site.put_out("b")
        await asking
        await until(lambda: asyncio.all_tasks() <= before)

    play(scene)


def test_a_put_may_follow_what_runs(play, monkeypatch):
    monkeypatch.setattr(events, "MOST_FOLLOWERS", 1)

    async def scene(site):
        await site.ask("PUT", "/predictions/a", BODY, prefer="respond-async")
        await until(lambda: site.model.runs)
        following = site.asking("PUT", "/predictions/a", BODY, accept="text/event-stream")
        await until(lambda: site.service.find("a").events.followers)
        full = await site.ask("PUT", "/predictions/a", BODY, accept="text/event-stream")
        assert full.status == 429
        assert full.error == "1 readers follow this prediction; try later."
        site.put_out("a", b'"x"')
        assert (await following).body.startswith(b'event: start\ndata: {"id":"a"')

    play(scene)


def test_a_stream_of_what_moves_waits_for_the_database(play, monkeypatch):
    async def scene(site):
        await site.ask("PUT", "/predictions/a", BODY, prefer="respond-async")
        await until(lambda: site.model.runs)
        following = site.asking("GET", "/predictions/a/events")
        running = site.service.find("a")
        await until(lambda: running.events.followers)
        ended = msgspec.structs.replace(to_record(running), status="succeeded", payload=None)
        looks: list[str] = []

        async def get(name, *_):
            looks.append(name)
            if len(looks) < 2:
                raise StorageError("PostgreSQL is restarting")
            return ended

        monkeypatch.setattr(site.service.records, "get", get)
        site.service.dispatcher("predict").drop_moved(running)
        await until(lambda: len(looks) == 1)
        assert not following.done()
        answer = await following
        assert b"event: completed" in answer.body

    play(scene)


@pytest.mark.parametrize("prefer", ["respond-async", ""])
def test_equal_puts_at_once_are_one_prediction(play, prefer):
    async def scene(site):
        headers = {"prefer": prefer} if prefer else {}
        asking = [site.asking("PUT", "/predictions/a", BODY, **headers) for _ in range(50)]
        await until(lambda: sum(each.done() for each in asking) >= 49)
        site.put_out("a", b'"x"')
        answers = await asyncio.gather(*asking)
        assert site.model.runs == ["a"]
        assert {answer.status for answer in answers} <= {200, 202}
        assert {read(answer)["id"] for answer in answers} == {"a"}
        other = await site.ask("PUT", "/predictions/a", {"input": {"text": "b"}})
        assert other.status == 409

    play(scene)


def test_a_put_that_looks_while_an_equal_one_runs_and_ends_is_answered_from_its_record(play):
    async def scene(site):
        looked, go_on = asyncio.Event(), asyncio.Event()
        find = site.service.records.get

        async def late(*args):
            found = await find(*args)
            looked.set()
            await go_on.wait()
            return found

        site.service.records.get = late
        first = site.asking("PUT", "/predictions/a", BODY)
        await looked.wait()
        second = site.asking("PUT", "/predictions/a", BODY)
        go_on.set()
        await until(lambda: site.model.runs)
        site.put_out("a", b'"x"')
        answers = await asyncio.gather(first, second)
        assert {answer.status for answer in answers} <= {200, 202}
        assert site.model.runs == ["a"]

    play(scene)


def test_a_put_of_what_runs_elsewhere_is_told_how_far_it_is(play):
    async def scene(site):
        await site.ask("PUT", "/predictions/a", BODY, prefer="respond-async")
        await site.harness.flush()
        del site.harness.dispatcher.predictions["predict", "a", ""]
        again = await site.ask("PUT", "/predictions/a", BODY)
        assert (again.status, read(again)["status"]) == (202, "processing")
        assert "idempotent-replayed" not in again.headers

    play(scene)


def test_a_key_for_predictions_reaches_no_training_by_their_paths(play):
    key = Key("ci", frozenset({"predict"}), "", 0.0)

    async def scene(site):
        own = {"durable": False, "context": {OWNER_KEY: "ci"}}
        training = await site.harness.submit("t", "train", **own)
        refused = await site.ask("POST", "/predictions/t/cancel", key=key)
        assert refused.status == 403
        assert refused.error == "The API key 'ci' lacks the scope 'train'."
        assert not training.is_cancelled
        put = await site.ask("PUT", "/trainings/t", {}, key=key)
        assert put.status == 403
        await site.harness.submit("p", **own)
        assert (await site.ask("POST", "/predictions/p/cancel", key=key)).status == 200

    play(scene)


def test_an_answer_waits_until_its_end_is_on_disk(play):
    async def scene(site):
        written = asyncio.get_running_loop().create_future()
        asking = site.asking("PUT", "/predictions/a", BODY)
        await until(lambda: site.model.runs)
        site.harness.records.save_at_once = lambda *_: written
        site.put_out("a")
        await assert_stays_so(lambda: not asking.done(), 0.05)
        written.set_result(None)
        assert (await asking).status == 200

    play(scene)


def test_where_there_is_no_code_for_it_nothing_is_there(play):
    async def scene(site):
        del site.service.dispatchers["train"]
        answer = await site.ask("POST", "/trainings", BODY)
        assert (answer.status, answer.error) == (
            404,
            "this server runs no trainings; it has no code for them.",
        )

    play(scene)

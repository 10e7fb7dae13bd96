"""Predictions and trainings by the clients, against a real server."""

import asyncio
import json
import uuid

import pytest

from cog_adapt import AsyncClient, Client
from cog_adapt.client import (
    Conflict,
    Event,
    NotFound,
    RefusedInput,
    RunCanceled,
    RunFailed,
    Unauthorized,
    Unreachable,
)
from cog_adapt.server.command.cog_server import cog_server, write_schema
from tests.cog_adapt.client.conftest import OTHERS, ROWS
from tests.cog_adapt.server.command.conftest import STREAMER, make_folder
from tests.cog_adapt.waiting import wait_until


def test_a_prediction_with_examples_shows_its_steps_and_makes_an_adapter(client):
    events: list[Event] = []
    run = client.predict(text="ab", examples=ROWS, steps=7, on_event=events.append)
    assert [event.step for event in events if event.step is not None] == [*range(1, 8)]
    losses = [event.loss for event in events if event.loss is not None]
    assert (len(losses), losses[-1]) == (7, run.metrics["adaptation"]["loss"])
    assert "step 1/7 loss" in "".join(event.log or "" for event in events)
    assert events[-1].run == run
    assert (run.status, run.error, run.logs.count("step ")) == ("succeeded", None, 7)
    again = client.predict(text="ab", adapter=run.output["adapter"])
    assert again.output["predictions"] == run.output["predictions"]


def test_an_early_answer_is_an_event(httpserver):
    early = {"predictions": [1], "expected": "about 0.8"}
    metric = json.dumps({"name": "early", "value": early})
    end = json.dumps({"status": "succeeded"})
    httpserver.expect_request("/predictions/a/events").respond_with_data(
        f"event: metric\ndata: {metric}\n\nevent: completed\ndata: {end}\n\n",
        content_type="text/event-stream",
    )
    with Client(httpserver.url_for("")) as client:
        first, last = client.follow("a")
    assert (first.early, first.step, first.run) == (early, None, None)
    assert last.early is None


def test_files_are_sent_by_their_paths(client, tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).write_text(name)
    run = client.predict(files=[tmp_path / "one", tmp_path / "two"])
    assert run.output["read"] == ["one", "two"]


def test_a_training_is_run_and_found(client):
    name = uuid.uuid4().hex
    run = client.train(size=2, run_id=name)
    assert (run.output, run.logs) == ({"weights": "ww"}, "training 2\n")
    assert client.get(name, kind="train").output == run.output


@pytest.mark.parametrize("place", [700, 1500, 3000])
def test_events_go_on_after_a_cut_without_a_lost_or_doubled_one(client, server, proxy, place):
    name = uuid.uuid4().hex
    proxy.cuts = [(f"{name}/events".encode(), place), (b"Last-Event-ID", 500)]
    with Client(proxy.url, server.key) as cut:
        events = list(cut.events({"pauses": 40}, run_id=name))
    asked = [each for each in proxy.requests if f"{name}/events".encode() in each]
    assert [b"last-event-id" in each.lower() for each in asked] == [False, True, True]
    assert [event.number for event in events] == [*range(1, len(events) + 1)]
    text = "".join(event.log or "" for event in events)
    assert text == "".join(f"pause {number}\n" for number in range(40))
    assert events == list(client.follow(name))
    assert list(client.follow(name, after=events[-2].number)) == events[-1:]


def test_a_put_whose_answer_is_cut_runs_once(server, proxy, runs):
    text = f"once {uuid.uuid4().hex}"
    proxy.cuts = [(b"PUT /predictions", 0)]
    with Client(proxy.url, server.key) as cut:
        assert cut.predict(text=text).status == "succeeded"
    assert proxy.cuts == []
    assert runs(text) == 1


def test_an_id_that_was_sent_before_does_not_run_again(client, runs):
    name, text = uuid.uuid4().hex, f"same {uuid.uuid4().hex}"
    first = client.predict(text=text, run_id=name)
    second = client.predict(text=text, run_id=name)
    assert (first.output, runs(text)) == (second.output, 1)
    with pytest.raises(Conflict, match="another input") as caught:
        client.predict(text="other", run_id=name)
    assert caught.value.status == 409


def test_a_server_that_stays_away_is_unreachable():
    with pytest.raises(Unreachable, match="cannot be reached") as caught:
        Client("http://127.0.0.1:9").predict()
    assert (caught.value.status, caught.value.detail) == (None, None)


def test_a_refused_input_has_its_field_and_value(client):
    with pytest.raises(RefusedInput, match="^steps: 0 is less than .*\ntext: ") as caught:
        client.predict(text="x" * 101, steps=0)
    error = caught.value
    assert (error.status, error.field, error.value) == (422, "steps", 0)
    assert [(each.field, each.value) for each in error.problems][1:] == [("text", "x" * 101)]
    assert error.detail["detail"][0]["loc"] == ["body", "input", "steps"]


def test_a_failed_run_is_an_error_with_its_record(client):
    with pytest.raises(RunFailed, match="told to") as caught:
        client.predict(pauses=1, fails=True)
    assert caught.value.run.logs.startswith("pause 0\n")
    assert caught.value.detail == caught.value.run.record
    assert not isinstance(caught.value, RunCanceled)


def test_without_the_key_all_is_refused(server, monkeypatch):
    monkeypatch.delenv("API_KEY", raising=False)
    with Client(server.url) as stranger, pytest.raises(Unauthorized) as caught:
        stranger.predict()
    assert caught.value.status == 401
    monkeypatch.setenv("COG_ADAPT_URL", server.url)
    monkeypatch.setenv("API_KEY", server.key)
    with Client() as known:
        assert known.predict().status == "succeeded"


def test_what_is_not_there_is_not_found(client):
    with pytest.raises(NotFound) as caught:
        client.get("nothing")
    assert caught.value.status == 404
    assert client.cancel("nothing") is False


def test_a_caller_that_leaves_cancels_its_run(client):
    name = uuid.uuid4().hex

    def leave(event):
        if event.log:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        client.predict(pauses=100000, run_id=name, on_event=leave)
    wait_until(lambda: client.get(name).status == "canceled")


def test_a_started_run_is_followed_and_canceled(client):
    run = client.start({"pauses": 100000})
    for event in client.follow(run.id):
        if event.log and client.cancel(run.id):
            break
    with pytest.raises(RunCanceled, match="canceled"):
        client.predict({"pauses": 100000}, run_id=run.id)


def test_the_asynchronous_client_does_the_same(server, tmp_path):
    (tmp_path / "one").write_text("one")

    async def work():
        events: list[Event] = []
        async with AsyncClient(server.url, server.key) as client:
            run = await client.predict(
                text="ab", examples=OTHERS, files=[tmp_path / "one"], on_event=events.append
            )
            found = [event async for event in client.follow(run.id)]
            with pytest.raises(RefusedInput):
                await client.predict(steps=0)
            return run, events, found

    run, events, found = asyncio.run(work())
    assert run.output["read"] == ["one"]
    assert events == found
    assert [event.step for event in events if event.step] == [1, 2, 3, 4]


def test_asynchronous_runs_are_canceled_by_request_and_with_their_task(server):
    async def work():
        async with AsyncClient(server.url, server.key) as client:
            begun = asyncio.Event()
            names = [uuid.uuid4().hex for _ in range(2)]
            tasks = [
                asyncio.create_task(
                    client.predict(pauses=100000, run_id=name, on_event=lambda _: begun.set())
                )
                for name in names
            ]
            await begun.wait()
            while not await client.cancel(names[0]):
                await asyncio.sleep(0)
            tasks[1].cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            return ended, [(await client.get(name)).status for name in names]

    ended, statuses = asyncio.run(work())
    assert [type(each) for each in ended] == [RunCanceled, asyncio.CancelledError]
    assert statuses == ["canceled", "canceled"]


def test_an_asynchronous_client_goes_on_after_a_cut(server, proxy):
    async def work(name):
        async with AsyncClient(proxy.url, server.key) as client:
            return [event async for event in client.events({"pauses": 20}, run_id=name)]

    name = uuid.uuid4().hex
    proxy.cuts = [(f"{name}/events".encode(), 800)]
    events = asyncio.run(work(name))
    assert proxy.cuts == []
    assert [event.number for event in events] == [*range(1, len(events) + 1)]


def test_cog_s_own_server_is_run_with_and_without_a_stream(tmp_path):
    folder = make_folder(tmp_path / "streamer", STREAMER)
    write_schema(folder, predict="predict.py:Predictor")
    with cog_server(folder, predict="predict.py:Predictor") as server, Client(server.url) as cog:
        events = list(cog.events({"words": 2}))
        assert [event.chunk for event in events if event.chunk] == ["word0 ", "word1 "]
        # Cog frees the slot of a run a moment after its last event.
        wait_until(lambda: server.get("/health-check").json()["status"] == "READY")
        with pytest.raises(RunFailed, match="told to"):
            cog.predict(fails=True)
        with pytest.raises(RefusedInput) as caught:
            cog.predict(words="many")
        assert (caught.value.field, caught.value.value) == ("words", "many")

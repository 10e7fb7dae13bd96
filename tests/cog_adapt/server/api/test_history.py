"""Records, pages of them, their events and their webhooks, as the API shows them."""

import json

import pytest

from cog_adapt.server.api import shapes
from tests.cog_adapt.waiting import until

URL = "http://127.0.0.1:9/"


def read(answer):
    return json.loads(answer.body)


def events(answer):
    blocks = answer.body.decode().removesuffix("\n\n").split("\n\n")
    return [dict(line.split(": ", 1) for line in block.split("\n")) for block in blocks]


async def ended(site, name, *chunks, **request):
    """Run a prediction to its end, and wait until it is written."""
    await site.harness.submit(name, **request)
    await until(lambda: name in site.model.runs)
    site.put_out(name, *chunks)
    await site.harness.flush()


def test_a_page_has_the_newest_first_and_the_way_to_the_next(play):
    async def scene(site):
        for name in "abc":
            await ended(site, name)
        page = read(await site.ask("GET", "/predictions", query="limit=2"))
        assert [each["id"] for each in page["results"]] == ["c", "b"]
        rest = read(await site.ask("GET", "/predictions", query=f"cursor={page['next']}"))
        assert ([each["id"] for each in rest["results"]], rest["next"]) == (["a"], None)
        trainings = read(await site.ask("GET", "/trainings"))
        assert trainings == {"results": [], "next": None}

    play(scene)


def test_a_page_may_be_of_some_states(play):
    async def scene(site):
        await ended(site, "a")
        for query, names in (
            ("status=succeeded", ["a"]),
            ("status=failed", []),
            ("status=failed,succeeded", ["a"]),
            ("status=failed&status=canceled", []),
        ):
            page = read(await site.ask("GET", "/predictions", query=query))
            assert [each["id"] for each in page["results"]] == names, query

    play(scene)


@pytest.mark.parametrize(
    ("query", "status", "place", "says"),
    [
        (
            "status=done,failed",
            422,
            ["query", "status"],
            "status is 'done'; allowed: starting, processing, succeeded, failed, canceled.",
        ),
        (
            "limit=0&status=",
            422,
            ["query", "status"],
            "status is ''; allowed: starting, processing, succeeded, failed, canceled.",
        ),
        ("limit=&cursor=x", 422, ["query", "limit"], "limit is ''; allowed: 1 to 1000."),
        ("limit=5&limit=0", 422, ["query", "limit"], "limit is '0'; allowed: 1 to 1000."),
        ("limit=1001", 422, ["query", "limit"], "limit is '1001'; allowed: 1 to 1000."),
        ("cursor=x", 404, None, "there is no such page: "),
    ],
)
def test_what_is_no_page_is_refused(play, query, status, place, says):
    async def scene(site):
        answer = await site.ask("GET", "/predictions", query=query)
        assert answer.status == status
        if place:
            (problem,) = read(answer)["detail"]
            assert (problem["loc"], problem["msg"]) == (place, says)
        else:
            assert answer.error.startswith(says)

    play(scene)


def test_what_waits_is_shown_with_its_place(play):
    async def scene(site):
        for name in "ab":
            await site.harness.submit(name, durable=False)
        running = read(await site.ask("GET", "/predictions/a"))
        assert (running["status"], "queue_position" in running) == ("processing", False)
        waiting = read(await site.ask("GET", "/predictions/b"))
        assert (waiting["status"], waiting["queue_position"]) == ("starting", 1)
        assert read(await site.ask("GET", "/predictions/a/deliveries")) == {"results": []}

    play(scene)


def test_what_has_ended_is_shown_from_its_record_of_its_kind(play):
    async def scene(site):
        await ended(site, "a", b'"x"')
        shown = read(await site.ask("GET", "/predictions/a"))
        assert (shown["status"], shown["output"], shown["input"]) == (
            "succeeded",
            ["x"],
            {"name": "x"},
        )
        training = await site.ask("GET", "/trainings/a")
        assert (training.status, training.error) == (404, "there is no training 'a'.")
        unknown = await site.ask("GET", f"/predictions/{'x' * 100}/events")
        assert (unknown.status, unknown.error) == (404, f"there is no prediction '{'x' * 80}'.")

    play(scene)


@pytest.mark.parametrize("end", ["events", "stream"])
def test_readers_are_bounded_however_they_come(play, end, monkeypatch):
    monkeypatch.setattr("cog_adapt.server.service.events.MOST_FOLLOWERS", 1)

    async def scene(site):
        await site.harness.submit("a")
        await until(lambda: "a" in site.model.runs)
        first = site.asking("GET", f"/predictions/a/{end}", last_event_id="1")
        await until(lambda: site.service.find("a").events.followers)
        full = await site.ask("GET", f"/predictions/a/{end}")
        assert (full.status, full.headers["retry-after"]) == (429, "1")
        site.put_out("a", b'"x"')
        answer = await first
        assert (answer.status, b"event: start" in answer.body) == (200, False)

    play(scene)


def test_events_that_the_cache_has_lost_come_from_the_record(play):
    async def scene(site):
        await ended(site, "a", b"1", b"2", b"3")
        assert site.service.find_cached("a", "predict").events.missed(0)
        answer = await site.ask("GET", "/predictions/a/events")
        assert [(e["id"], e["event"]) for e in events(answer)] == [
            ("1", "start"),
            *[(str(number), "output") for number in (2, 3, 4)],
            ("5", "completed"),
        ]
        rest = await site.ask("GET", "/predictions/a/events", last_event_id="1")
        assert [event["id"] for event in events(rest)] == ["2", "3", "4", "5"]

    play(scene, cog_stream_history_capacity=2)


@pytest.mark.parametrize("end", ["events", "stream"])
@pytest.mark.parametrize("number", ["x", "-1", "1" * 16, "1.0"])
def test_what_is_no_number_of_an_event_is_refused(play, end, number):
    async def scene(site):
        answer = await site.ask("GET", f"/predictions/%ff/{end}", last_event_id=number)
        assert answer.status == 422  # it is read before the id, which is no UTF-8 here
        (problem,) = read(answer)["detail"]
        assert problem["loc"] == ["header", "last-event-id"]
        assert problem["msg"] == (
            f"Last-Event-ID is {number[:20]!r}; allowed: the id of an event, a whole number."
        )

    play(scene)


def test_an_id_that_is_no_utf_8_is_refused(play):
    async def scene(site):
        for end in ("", "/events", "/stream", "/deliveries"):
            assert (await site.ask("GET", f"/predictions/%ff{end}")).status == 400

    play(scene)


def test_webhooks_are_listed_and_sent_again(play):
    async def scene(site):
        site.harness.webhooks.announce = site.harness.webhooks.complete = lambda _: None
        await ended(site, "a", webhook=URL)
        (owed,) = read(await site.ask("GET", "/predictions/a/deliveries"))["results"]
        assert (owed["event"], owed["url"], owed["state"], owed["attempts"]) == (
            "completed",
            URL,
            "pending",
            0,
        )
        assert set(owed) == set(shapes.Delivery.model_fields)
        again = []

        async def redeliver(delivery):
            again.append(delivery.id)
            return delivery

        site.harness.webhooks.redeliver = redeliver
        path = f"/predictions/a/deliveries/{owed['id']}/redeliver"
        assert read(await site.ask("POST", path)) == owed
        assert again == [owed["id"]]
        for path, error in (
            ("/predictions/a/deliveries/b/redeliver", "there is no delivery 'b' of 'a'."),
            ("/predictions/b/deliveries/b/redeliver", "there is no prediction 'b'."),
        ):
            answer = await site.ask("POST", path)
            assert (answer.status, answer.error) == (404, error)

    play(scene)

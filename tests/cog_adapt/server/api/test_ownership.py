"""What belongs to whom: own things only, others' are not there; an admin sees all."""

import json

import pytest
from structlog.testing import capture_logs

from cog_adapt.server.middleware.keys import Key, Scope
from cog_adapt.server.protocol import OWNER_KEY, Finished
from tests.cog_adapt.waiting import until

BOTH: frozenset[Scope] = frozenset({"predict", "train"})
ANN, BOB = Key("ann", BOTH, "a"), Key("bob-laptop", BOTH, "b", owner="bob")
ROOT = Key("root", frozenset({"admin"}), "c")
HOOK = {"webhook": "https://example.com/?key=s", "webhook_events_filter": ["completed"]}
SECRET = "what only ann may read"


async def made(site, key=ANN, name="a", text=SECRET, noun="predictions"):
    """One that has ended, with a webhook that is owed."""
    body = {"input": {"text": text}} | HOOK
    answer = await site.ask("PUT", f"/{noun}/{name}", body, key=key, prefer="respond-async")
    assert answer.status == 202
    kind = "predict" if noun == "predictions" else "train"
    dispatcher = site.service.dispatchers[kind]
    prediction = dispatcher.find(name, key.owner if key else "")
    run_id = prediction.run_id
    await until(lambda: run_id in dispatcher.lead.running)
    prediction.add_log("stdout", f"{text}\n")
    site.put_out(run_id, b'"%b"' % text.encode()) if kind == "predict" else dispatcher.end(
        prediction, Finished(run_id, "succeeded")
    )
    await site.harness.flush()


def routes(name="a", delivery="d", noun="predictions"):
    one = f"/{noun}/{name}"
    return [
        ("GET", one),
        ("GET", f"{one}/events"),
        ("GET", f"{one}/stream"),
        ("GET", f"{one}/deliveries"),
        ("POST", f"{one}/deliveries/{delivery}/redeliver"),
        ("POST", f"{one}/cancel"),
    ]


@pytest.mark.parametrize("noun", ["predictions", "trainings"])
@pytest.mark.parametrize("is_running", [False, True])
def test_what_is_anothers_answers_as_an_unknown_id(play, noun, is_running):
    async def scene(site):
        if is_running:
            kind = "predict" if noun == "predictions" else "train"
            await site.harness.submit("a", kind, context={OWNER_KEY: "ann"})
        else:
            await made(site, noun=noun)
        for theirs, unknown in zip(routes("a", noun=noun), routes("b", noun=noun), strict=True):
            answer = await site.ask(*theirs, key=BOB)
            nothing = await site.ask(*unknown, key=BOB)
            assert answer.status == nothing.status == 404, theirs
            assert answer.body == nothing.body.replace(b"'b'", b"'a'")
            assert answer.headers == nothing.headers
        listed = await site.ask("GET", f"/{noun}", key=BOB)
        assert listed.body == b'{"next":null,"results":[]}'
        assert (await site.ask("GET", f"/{noun}/a", key=ANN)).status == 200

    play(scene)


def test_one_owner_cancels_only_its_own(play):
    async def scene(site):
        mine, theirs = [
            await site.harness.submit("a", durable=False, context={OWNER_KEY: name})
            for name in ("ann", "bob")
        ]
        assert (await site.ask("POST", "/predictions/a/cancel", key=BOB)).status == 200
        assert theirs.is_final
        assert not mine.is_cancelled

    play(scene)


def test_an_admin_sees_all_and_says_whose_where_it_must(play):
    async def scene(site):
        await made(site)
        for method, path in routes()[:4]:
            assert (await site.ask(method, path, key=ROOT)).status == 200
        await made(site, BOB, text="bobs own")
        ambiguous = await site.ask("GET", "/predictions/a", key=ROOT)
        assert (ambiguous.status, ambiguous.error) == (
            409,
            "2 owners have the id 'a'. Name one: ?owner=NAME.",
        )
        for owner, text in (("ann", SECRET), ("bob", "bobs own")):
            named = await site.ask("GET", "/predictions/a", key=ROOT, query=f"owner={owner}")
            assert text.encode() in named.body
            listed = await site.ask("GET", "/predictions", key=ROOT, query=f"owner={owner}")
            assert text.encode() in listed.body
            assert len(listed.body.split(b'"id":')) == 2
            assert [each["owner"] for each in json.loads(listed.body)["results"]] == [owner]
            assert json.loads(named.body)["owner"] == owner
        everything = await site.ask("GET", "/predictions", key=ROOT)
        assert len(everything.body.split(b'"id":')) == 3
        assert (await site.ask("GET", "/predictions/x", key=ROOT)).status == 404
        strange = await site.ask("GET", "/predictions", key=ROOT, query="owner=%00")
        assert strange.status == 404

    play(scene)


def test_an_admin_cancels_anothers(play):
    async def scene(site):
        running = await site.harness.submit("a", durable=False, context={OWNER_KEY: "ann"})
        assert (await site.ask("POST", "/predictions/a/cancel", key=ROOT)).status == 200
        assert running.is_cancelled

    play(scene)


def test_records_of_before_there_were_keys_are_the_admins(play):
    async def scene(site):
        await made(site, key=None)
        body = {"input": {"text": SECRET}}
        assert (await site.ask("GET", "/predictions/a", key=ANN)).status == 404
        assert (await site.ask("GET", "/predictions/a", key=ROOT)).status == 200
        replayed = await site.ask("PUT", "/predictions/a", body, key=ROOT)
        assert replayed.headers["idempotent-replayed"] == "true"
        mine = await site.ask("PUT", "/predictions/a", body, key=ANN, prefer="respond-async")
        assert mine.status == 202

    play(scene)


def test_who_has_no_key_set_shares_everything_and_names_no_owner(play):
    async def scene(site):
        await made(site, key=None)
        for path in ("/predictions/a", "/predictions"):
            answer = await site.ask("GET", path, query="owner=ann")
            assert SECRET.encode() in answer.body
            assert b"owner" not in answer.body

    play(scene)


def test_a_look_at_what_is_not_ones_own_is_logged(play):
    async def scene(site):
        await made(site)
        with capture_logs() as lines:
            await site.ask("GET", "/predictions/a", key=BOB)
            await site.ask("POST", "/predictions/a/cancel", key=BOB)
            await site.ask("GET", "/predictions/a", key=ANN)
        assert [(line["key"], line["owner"], line["why"]) for line in lines] == [
            ("bob-laptop", "bob", "no such id of this owner")
        ] * 2

    play(scene)

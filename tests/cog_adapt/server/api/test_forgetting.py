"""DELETE: what is gone, for whom, and who may."""

import asyncio
import json

import pytest
from structlog.testing import capture_logs

from cog_adapt.server.middleware.keys import Key
from cog_adapt.server.protocol import OWNER_KEY
from tests.cog_adapt.server.api.test_ownership import ANN, BOB, ROOT, made
from tests.cog_adapt.waiting import until

WORD = "q7Zk-the-secret"
LARGE = f"{WORD}-" * 8000


def places_of(folder, word):
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path.name for path in files if word.encode() in path.read_bytes()]


def counts(predictions=0, trainings=0, adapters=None):
    return {"predictions": predictions, "trainings": trainings, "adapters": adapters or {}}


@pytest.mark.parametrize("all_at_once", [False, True])
@pytest.mark.parametrize("noun", ["predictions", "trainings"])
def test_no_byte_of_it_is_left(play, tmp_path, capfd, all_at_once, noun):
    """Neither of its input, output, logs, events, nor of the webhook that it owed."""

    async def scene(site):
        await made(site, text=LARGE, noun=noun)
        await made(site, BOB, text="bobs own", noun=noun)
        assert places_of(tmp_path, WORD)
        path = "/owners/ann/data" if all_at_once else f"/{noun}/a"
        answer = await site.ask("DELETE", path, key=ANN)
        assert json.loads(answer.body) == counts(**{noun: 1})
        assert places_of(tmp_path, WORD) == []
        for gone in ("", "/events", "/stream", "/deliveries"):
            assert (await site.ask("GET", f"/{noun}/a{gone}", key=ANN)).status == 404
        assert (await site.ask("GET", f"/{noun}/a", key=BOB)).status == 200
        assert (await site.ask("DELETE", f"/{noun}/a", key=ANN)).status == 404

    play(scene)
    assert WORD not in "".join(capfd.readouterr())


def test_anothers_is_not_there_and_an_admin_forgets_any(play):
    async def scene(site):
        await made(site)
        theirs = await site.ask("DELETE", "/predictions/a", key=BOB)
        unknown = await site.ask("DELETE", "/predictions/b", key=BOB)
        assert (theirs.status, unknown.status) == (404, 404)
        assert theirs.body == unknown.body.replace(b"'b'", b"'a'")
        for owner in ("ann", "nobody-known"):
            answer = await site.ask("DELETE", f"/owners/{owner}/data", key=BOB)
            assert (answer.status, answer.error) == (404, f"there is no owner {owner!r}.")
        assert (await site.ask("GET", "/predictions/a", key=ANN)).status == 200
        with capture_logs() as lines:
            forgotten = await site.ask("DELETE", "/predictions/a", key=ROOT)
        assert json.loads(forgotten.body) == counts(1)
        (line,) = lines
        assert (line["event"], line["owner"], line["prediction_id"]) == ("forgotten", "ann", "a")

    play(scene)


def test_what_runs_at_another_server_is_not_forgotten_here(play):
    async def scene(site):
        await site.harness.submit("a", context={OWNER_KEY: "ann"})
        await site.harness.flush()
        del site.harness.dispatcher.predictions["predict", "a", "ann"]
        for path in ("/predictions/a", "/owners/ann/data"):
            assert (await site.ask("DELETE", path, key=ANN)).status == 409

    play(scene)


def test_a_key_forgets_of_its_owner_only_what_it_opens(play):
    narrow = Key("ann-laptop", frozenset({"predict"}), "d", owner="ann")

    async def scene(site):
        await made(site)
        await made(site, noun="trainings")
        assert json.loads((await site.ask("DELETE", "/owners/ann/data", key=narrow)).body) == (
            counts(1)
        )
        assert (await site.ask("GET", "/trainings/a", key=ANN)).status == 200
        whole = await site.ask("DELETE", "/owners/ann/data", key=ROOT)
        assert json.loads(whole.body) == counts(0, 1)

    play(scene)


def test_without_keys_everything_is_nobodys(play):
    async def scene(site):
        await made(site, key=None)
        assert (await site.ask("DELETE", "/owners/ann/data")).status == 404
        assert json.loads((await site.ask("DELETE", "/owners/-/data")).body) == counts(1)

    play(scene)


def test_a_reader_of_its_events_reads_on_undisturbed(play):
    """What was given out before is not called back."""

    async def scene(site):
        running = site.asking("PUT", "/predictions/a", {}, key=ANN, accept="text/event-stream")
        await until(lambda: "ann/a" in site.lead.running)
        site.put_out("ann/a", b'"x"')
        await site.harness.flush()
        assert (await site.ask("DELETE", "/predictions/a", key=ANN)).status == 200
        assert b"event: completed" in (await asyncio.wait_for(running, 10)).body

    play(scene)

"""No sequence of calls shows a byte of another owner: a seeded walk of two owners and an admin.

Every text of an owner holds a mark of its own, and so does every id that the server makes. The
length is OWNERS_WALK_STEPS; `make walk` takes 12,000 steps.
"""

import asyncio
import json
import os
import random
import re
from typing import Any

import pytest

from cog_adapt.server.middleware.keys import Key
from cog_adapt.server.protocol import OWNER_KEY, Finished, Kind, Log, Metric, Output, Run
from tests.cog_adapt.server.api.site import Site

STEPS = int(os.environ.get("OWNERS_WALK_STEPS", "400"))
STEPS_OF_A_SERVER = 250
ACTORS = (
    Key("ann", frozenset({"predict", "train"}), "a"),
    Key("ann-laptop", frozenset({"predict"}), "b", owner="ann"),
    Key("bob", frozenset({"predict", "train"}), "c"),
    Key("root", frozenset({"admin"}), "d"),
)
OWNERS = ("ann", "bob", "root")
IDS = ("a", "b", "c", "d")
NOUNS: dict[str, Kind] = {"predictions": "predict", "trainings": "train"}
NOUN_OF = {kind: noun for noun, kind in NOUNS.items()}
MARK = re.compile(rb"mark-([a-z]+)-[0-9]+-")
MADE = re.compile(rb"pred_[0-9a-f]+")


class Walk:
    """Calls of all, one after the other, and what each may see."""

    def __init__(self, folder, seed):
        self.folder, self.random = folder, random.Random(seed)
        self.marks, self.steps = 0, 0
        self.known: dict[tuple[str, Kind, str], str] = {}  # owner, kind, id: the mark of its input
        self.made_for: dict[bytes, str] = {}  # ids of the server's
        self.deliveries = ["none"]
        self.cursors = ["none"]
        self.readers: list[tuple[Key, str, asyncio.Task]] = []
        self.calls = (
            *[self.create] * 4,
            *[self.finish] * 4,
            *[self.look] * 4,
            *[self.listed] * 2,
            *(self.follow, self.cancel, self.redeliver, self.replay, self.forget),
        )

    async def serve(self, steps):
        """Go on with a new server on what the last one left."""
        self.site = Site(self.folder, max_queue=40)
        await self.site.harness.records.register()
        self.site.lead.slots = self.site.harness.trainings.lead.slots = 3
        self.site.service.open()
        for _ in range(steps):
            call = self.random.choice(self.calls)
            await call(self.random.choice(ACTORS))
            self.steps += 1
            if self.random.random() < 0.01:
                await self.forget_all(self.random.choice(ACTORS))
        await self.stop()

    async def stop(self):
        """Die, so that the next server takes over what waits."""
        for actor, path, reader in self.readers:
            reader.cancel()
            answer = (await asyncio.gather(reader, return_exceptions=True))[0]
            if not isinstance(answer, BaseException):
                self.check(actor, path, answer)
        self.readers = []
        await self.site.harness.flush()
        await self.site.harness.webhooks.close()
        await self.site.harness.records.close()

    async def ask(self, actor, method, path, *args, **more):
        answer = await self.site.ask(method, path, *args, key=actor, **more)
        self.check(actor, path + more.get("query", ""), answer)
        return answer

    def check(self, actor, asked, answer):
        """See nothing of another's, in body or headers, but what was in the question."""
        assert answer.status < 500, (asked, answer)
        if actor.opens("admin"):
            return
        shown = answer.body + repr(answer.headers).encode()
        whose = {found.decode() for found in MARK.findall(shown)}
        assert whose <= {actor.owner}, (actor, asked, shown)
        for made in set(MADE.findall(shown)):
            assert made in asked.encode() or self.made_for.get(made) == actor.owner, (asked, shown)

    def place(self, actor):
        noun = self.random.choice(list(NOUNS))
        made = [name.decode() for name in self.made_for]
        name = self.random.choice([*IDS, *IDS, *self.random.sample(made, min(2, len(made)))])
        query = f"owner={self.random.choice(OWNERS)}" if self.random.random() < 0.2 else ""
        return noun, name, query

    def may(self, actor, noun):
        return actor.opens(NOUNS[noun])

    async def create(self, actor):
        noun, name, _ = self.place(actor)
        if not self.may(actor, noun):
            return
        self.marks += 1
        mark = f"mark-{actor.owner}-{self.marks}-" * self.random.choice([1, 1, 1, 6000])
        body = {"input": {"text": mark}, "retries": 1}
        if self.random.random() < 0.4:
            body |= {"webhook": f"http://localhost:9/{mark[:20]}-?{mark[:20]}-"}
            body |= {"webhook_events_filter": ["completed"]}
        if self.random.random() < 0.3:
            await self.post(actor, noun, body, mark)
            return
        if name.startswith("pred_"):
            name = "a"
        key = (actor.owner, NOUNS[noun], name)
        answer = await self.ask(actor, "PUT", f"/{noun}/{name}", body, prefer="respond-async")
        is_anew = key not in self.known and not (actor.opens("admin") and answer.status == 409)
        assert (answer.status in (202, 429)) if is_anew else answer.status == 409, (key, answer)
        if answer.status == 202:
            self.known[key] = mark

    async def post(self, actor, noun, body, mark):
        answer = await self.site.ask("POST", f"/{noun}", body, key=actor, prefer="respond-async")
        if answer.status != 202:
            assert answer.status == 429
            return
        name = json.loads(answer.body)["id"]
        self.made_for[name.encode()] = actor.owner
        self.known[actor.owner, NOUNS[noun], name] = mark

    async def finish(self, _actor):
        """End one that runs, with its own text in all that a run may say."""
        kind: Kind = self.random.choice(["predict", "train"])
        lead: Any = self.site.service.dispatchers[kind].lead
        if not lead.running:
            await asyncio.sleep(0)
            return
        said: list[Any] = self.site.harness.played[kind].said
        runs = [run for run in said if isinstance(run, Run) and run.id in lead.running]
        run = self.random.choice(runs)  # as the worker knows it
        run_id, text = run.id, json.loads(run.input)["text"]
        assert text.startswith(f"mark-{run.context[OWNER_KEY]}-")
        lead.on_report(Log(run_id, "stdout", f"{text}\n"))
        lead.on_report(Output(run_id, json.dumps(text).encode()))
        lead.on_report(Metric(run_id, "note", json.dumps(text[:40]).encode()))
        if self.random.random() < 0.7:
            fails = self.random.random() < 0.3
            failed, well = Finished(run_id, "failed", error=text), Finished(run_id, "succeeded")
            lead.on_report(failed if fails else well)
            said.remove(run)

    async def look(self, actor):
        noun, name, query = self.place(actor)
        part = self.random.choice(["", "", "/deliveries"])
        answer = await self.ask(actor, "GET", f"/{noun}/{name}{part}", query=query)
        if answer.status == 200 and part:
            self.deliveries += [each["id"] for each in json.loads(answer.body)["results"]]
        if actor.opens("admin"):
            return
        mark = self.known.get((actor.owner, NOUNS[noun], name))
        assert (answer.status == 200) == (mark is not None), (actor, noun, name, answer)
        assert part or mark is None or mark.encode() in answer.body

    async def listed(self, actor):
        noun, _, query = self.place(actor)
        if self.random.random() < 0.5:
            query += f"&limit=2&cursor={self.random.choice(self.cursors)}"
        answer = await self.ask(actor, "GET", f"/{noun}", query=query.strip("&"))
        if answer.status == 200 and (following := json.loads(answer.body)["next"]):
            self.cursors.append(following)

    async def follow(self, actor):
        """Read events; of what runs, as they come."""
        noun, name, query = self.place(actor)
        path = f"/{noun}/{name}/{self.random.choice(['events', 'stream'])}"
        reader = self.site.asking("GET", path, key=actor, query=query)
        await asyncio.wait({reader}, timeout=0.01)
        self.readers.append((actor, path, reader))
        for each in [each for each in self.readers if each[-1].done()]:
            self.readers.remove(each)
            self.check(each[0], each[1], each[-1].result())

    async def cancel(self, actor):
        noun, name, query = self.place(actor)
        mine = self.site.service.find(name, None, actor.owner)
        answer = await self.ask(actor, "POST", f"/{noun}/{name}/cancel", query=query)
        if mine is None and not actor.opens("admin"):
            assert (answer.status, answer.body) == (404, b"{}")

    async def redeliver(self, actor):
        noun, name, query = self.place(actor)
        delivery = self.random.choice(self.deliveries)
        path = f"/{noun}/{name}/deliveries/{delivery}/redeliver"
        await self.ask(actor, "POST", path, query=query)

    async def replay(self, actor):
        """Put one's own input again: it is answered from its record, or from what runs."""
        mine = [key for key in self.known if key[0] == actor.owner and actor.opens(key[1])]
        if not mine:
            return
        _, kind, name = key = self.random.choice(mine)
        body = {"input": {"text": self.known[key]}}
        path = f"/{NOUN_OF[kind]}/{name}"
        answer = await self.ask(actor, "PUT", path, body, prefer="respond-async")
        assert answer.status in (200, 202), answer

    async def forget(self, actor):
        noun, name, query = self.place(actor)
        if not self.may(actor, noun) or actor.opens("admin"):
            return
        key = (actor.owner, NOUNS[noun], name)
        answer = await self.ask(actor, "DELETE", f"/{noun}/{name}", query=query)
        assert (answer.status == 404) == (key not in self.known), (key, answer)
        if answer.status == 200:
            mark = self.known.pop(key)
            left = [path for path in self.files() if mark.encode() in path.read_bytes()]
            assert left == [], key

    async def forget_all(self, actor):
        owner = self.random.choice(OWNERS)
        answer = await self.ask(actor, "DELETE", f"/owners/{owner}/data")
        if actor.owner != owner and not actor.opens("admin"):
            assert answer.status == 404
            return
        records = self.site.harness.records
        for key in [each for each in self.known if each[0] == owner]:
            in_flight = self.site.service.find(key[2], key[1], owner)
            if in_flight is None and await records.get(key[2], key[1], owner) is None:
                del self.known[key]

    def files(self):
        return [path for path in self.folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize("seed", range(1 if STEPS < 1000 else 4))
def test_no_sequence_of_calls_shows_a_byte_of_another(tmp_path, seed):
    walk = Walk(tmp_path, seed)
    wanted = STEPS if STEPS < 1000 else STEPS // 4

    async def story():
        while walk.steps < wanted:
            await walk.serve(min(STEPS_OF_A_SERVER, wanted - walk.steps))

    asyncio.run(story())
    assert walk.steps == wanted

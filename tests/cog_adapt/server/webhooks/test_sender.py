import asyncio
import contextlib
import json
import uuid
from datetime import UTC, datetime

import msgspec
import pytest

from cog_adapt.server.egress import Egress
from cog_adapt.server.records.record import Delivery, Record
from cog_adapt.server.records.store import Records
from cog_adapt.server.shares.budget import Budget
from cog_adapt.server.webhooks import Announcement, Webhooks, WebhookSigner
from tests.cog_adapt.waiting import until

pytestmark = pytest.mark.anyio
NO_WAIT = (0.0,) * 12
HOST = "127.0.0.1"


@pytest.fixture
def anyio_backend():
    return "asyncio"


class Receiver:
    """An HTTP server that notes what it gets, and answers as it was set to."""

    def __init__(self):
        self.answers = []  # statuses; None closes the connection; 200 where there is none left
        self.got = []
        self.open = asyncio.Event()
        self.open.set()
        self.most_at_once = self._at_once = 0

    async def _serve(self, reader, writer):
        with contextlib.suppress(OSError, asyncio.IncompleteReadError), contextlib.closing(writer):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
                body = await reader.readexactly(int(headers["content-length"]))
                self._at_once += 1
                self.most_at_once = max(self.most_at_once, self._at_once)
                await self.open.wait()
                self._at_once -= 1
                self.got.append((headers, body))
                status = self.answers.pop(0) if self.answers else 200
                if status is None:
                    return
                text = f"HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n"
                writer.write(text.encode())
                await writer.drain()

    @property
    def events(self):
        return [json.loads(body)["event"] for _, body in self.got]

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, HOST, 0)
        self.url = f"http://{HOST}:{self._server.sockets[0].getsockname()[1]}/hook"
        return self

    async def __aexit__(self, *_):
        self.open.set()
        self._server.close()
        await self._server.wait_closed()


@pytest.fixture
async def receiver(anyio_backend):
    async with Receiver() as receiver:
        yield receiver


@pytest.fixture
async def records(anyio_backend, tmp_path):
    opened = Records.open(None, tmp_path)
    await opened.register()
    yield opened
    await opened.close()


@pytest.fixture
async def start(anyio_backend, records):
    """Makes senders; ends them when the test does."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(into=records, allow=("127.0.0.0/8",), **options):
            egress = Egress(allow)
            webhooks = Webhooks(into, egress, WebhookSigner("coglet/0.23.1", "tok"), **options)
            await webhooks.start()
            stack.push_async_callback(egress.aclose)
            stack.push_async_callback(webhooks.close)
            return webhooks

        yield start


def announcement(event, url, text="", record_id="p1"):
    body = json.dumps({"event": event, "text": text}).encode()
    return Announcement("predict", record_id, event, url, body)


async def save(records, url, record_id="p1", **changes):
    """A delivery as the server saves it, with its final record."""
    now = datetime.now(UTC)
    delivery = Delivery(
        id=str(uuid.uuid4()),
        record_id=record_id,
        kind="predict",
        event="completed",
        url=url,
        body=json.dumps({"event": "completed", "id": record_id}),
        created_at=now,
        next_attempt_at=now,
    )
    delivery = msgspec.structs.replace(delivery, **changes)
    record = Record(id=record_id, kind="predict", status="succeeded", created_at=now)
    await records.save_durably(record, [delivery])
    return delivery


async def find(records, delivery):
    found = await records.deliveries(delivery.record_id, delivery.kind, delivery.owner)
    return next(each for each in found if each.id == delivery.id)


async def state(records, delivery, wanted):
    async def check():
        return (await find(records, delivery)).state == wanted

    await until(check)
    return await find(records, delivery)


async def test_what_waits_for_a_slow_receiver_is_bounded(receiver, records, start):
    webhooks = await start()
    receiver.open.clear()
    webhooks.announce(announcement("logs", receiver.url))
    await until(lambda: receiver.most_at_once)
    webhooks.announce(announcement("start", receiver.url))
    for number in range(1000):
        webhooks.announce(announcement("output", receiver.url, text=str(number)))
    receiver.open.set()
    await webhooks.drain(10)
    assert len(receiver.got) == 1 + 256
    assert receiver.events[:2] == ["logs", "start"]
    assert json.loads(receiver.got[-1][1])["text"] == "999"


async def test_what_waits_is_weighed_by_owner_and_the_last_one_comes_later(
    receiver, records, start
):
    counted, held = [], Budget("webhooks", "WEBHOOK_BYTES", 1000, 0.5)
    webhooks = await start(held=held, count=lambda *what: counted.append(what))
    receiver.open.clear()
    for owner in ("ann", "ann", "bob"):
        each = announcement("output", receiver.url, text=owner * 100)
        webhooks.announce(each._replace(owner=owner))
    assert counted == [("output", "dropped")]
    assert held.used == held.used_by("ann") + held.used_by("bob") > 600
    late = await save(records, receiver.url, record_id="p2", owner="ann", body='"%s"' % ("x" * 300))
    webhooks.complete(late)
    receiver.open.set()
    await until(lambda: len(receiver.got) == 2)
    await state(records, late, "pending")
    await webhooks.drain(10)
    assert [held.used, held.used_by("ann"), held.used_by("bob")] == [0, 0, 0]
    await start()  # it is found within a minute, or by the next server
    await state(records, late, "delivered")


async def test_what_is_dropped_weighs_nothing(receiver, records, start):
    held = Budget("webhooks", "WEBHOOK_BYTES", 1e9)
    webhooks = await start(held=held, timeout=0.2, delays=())
    receiver.open.clear()
    for _ in range(300):
        webhooks.announce(announcement("output", receiver.url))
    webhooks.complete(await save(records, receiver.url))
    webhooks.announce(announcement("output", receiver.url, record_id="p2"))
    webhooks.complete(await save(records, receiver.url, record_id="p2"))
    webhooks.drop("predict", "", "p2")
    await webhooks.drain(10)
    assert held.used == 0
    for number in range(2):
        webhooks.announce(announcement("output", receiver.url, record_id=f"q{number}"))
    await asyncio.sleep(0)  # one has begun to be sent
    await webhooks.close()
    assert held.used == 0


async def test_a_dead_receiver_holds_the_last_webhook_only_for_a_while(receiver, records, start):
    webhooks = await start(timeout=0.2, delays=())
    receiver.open.clear()
    for _ in range(100):
        webhooks.announce(announcement("output", receiver.url))
    webhooks.complete(delivery := await save(records, receiver.url))
    failed = await state(records, delivery, "failed")
    assert "no answer within 0.2 s" in failed.last_error


async def test_what_is_given_up_can_be_tried_again(receiver, records, start):
    receiver.answers = [None, 503, 404, 503]
    webhooks = await start(delays=NO_WAIT)
    webhooks.complete(delivery := await save(records, receiver.url))
    failed = await state(records, delivery, "failed")
    assert failed.attempts == len(receiver.got) == 3
    assert failed.last_error
    again = await webhooks.redeliver(failed)  # a redelivery is one attempt
    assert (again.state, again.attempts, again.next_attempt_at) == ("failed", 4, None)
    again = await webhooks.redeliver(again)
    assert (again.state, again.attempts) == ("delivered", 5)
    assert await find(records, delivery) == again
    receiver.answers = [500]
    more = await webhooks.redeliver(again)  # it was received once; that stays true
    assert (more.state, more.attempts, more.last_status) == ("delivered", 6, 500)


async def test_what_was_received_is_never_sent_again(receiver, records, start):
    webhooks = await start(delays=NO_WAIT)
    receiver.answers = [503] * 20
    saving = [save(records, receiver.url, record_id=f"p{i}") for i in range(40)]
    deliveries = await asyncio.gather(*saving)
    for delivery in deliveries:
        webhooks.complete(delivery)
        webhooks.complete(delivery)
    for delivery in deliveries:
        await state(records, delivery, "delivered")
    await webhooks.drain(10)
    await (await start()).drain(10)
    assert len(receiver.got) == 60


async def test_drain_has_an_end(receiver, start):
    webhooks = await start()
    receiver.open.clear()
    webhooks.announce(announcement("start", receiver.url))
    await asyncio.wait_for(webhooks.drain(0.1), 5)
    assert receiver.got == []


async def test_close_leaves_what_is_under_way_in_the_database(receiver, records, start):
    webhooks = await start()
    receiver.open.clear()
    webhooks.complete(delivery := await save(records, receiver.url))
    await until(lambda: receiver.most_at_once)
    await webhooks.close()
    assert (await find(records, delivery)).state == "pending"


async def test_an_owners_slow_webhooks_leave_a_host_to_others(receiver, records, start):
    webhooks = await start(timeout=30)
    receiver.open.clear()
    for number in range(60):
        webhooks.complete(await save(records, receiver.url, f"slow{number}", owner="ann"))
    await until(lambda: receiver.most_at_once == 16)
    webhooks.complete(await save(records, receiver.url, "quick", owner="bob"))
    await until(lambda: receiver.most_at_once == 17)
    receiver.open.set()
    await webhooks.drain(20)
    assert len(receiver.got) == 61

"""Server-sent events: their bytes, their end, and readers who leave."""

import asyncio
import json
import re

import httpx2
import pytest

from cog_adapt.server.api import sse as streams
from cog_adapt.server.api.sse import (
    EventStream,
    follow,
    write_event,
    write_numbered,
    write_translated,
)
from cog_adapt.server.protocol import Finished
from cog_adapt.server.service.events import RunEvent
from cog_adapt.server.service.prediction import Prediction, PredictionSpec, encode
from tests.cog_adapt.waiting import until


def started(history=100):
    prediction = Prediction(PredictionSpec("s1", "predict", b"{}", b"{}"), history)
    prediction.start()
    return prediction


def end(prediction, status="succeeded", **more):
    prediction.finish(Finished("s1", status, is_list=True, **more))
    prediction.events.close()


def run(test):
    return asyncio.run(asyncio.wait_for(test, 10))


def text(prediction, after=0, **options):
    async def collect():
        return b"".join([part async for part in follow(prediction, after, **options)]).decode()

    return collect()


def parsed(stream):
    return [
        dict(line.split(": ", 1) for line in block.split("\n"))
        for block in stream.removesuffix("\n\n").split("\n\n")
    ]


def test_a_stream_that_has_lost_events_says_so_and_ends_if_it_has_no_numbers():
    async def truncated():
        prediction = started(history=3)
        for _ in range(5):
            prediction.add_output(b"1")
        end(prediction)
        return await text(prediction), parsed(await text(prediction, write=write_numbered))

    cogs, numbered = run(truncated())
    assert cogs == (
        'event: error\ndata: {"error":"SSE stream replay truncated; events were dropped",'
        '"skipped":3}\n\n'
    )
    assert [(event["event"], event.get("id")) for event in numbered] == [
        ("error", None),
        *[("output", str(number)) for number in (4, 5, 6)],
        ("completed", "7"),
    ]


class Reader:
    """The other side of an ASGI connection."""

    def __init__(self):
        self.sent, self.gone = [], asyncio.Event()

    async def receive(self):
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message):
        self.sent.append(message)

    @property
    def body(self):
        return b"".join(message.get("body", b"") for message in self.sent)


def test_a_reader_who_leaves_is_noticed_and_followed_no_more():
    async def leave():
        prediction, reader, left = started(), Reader(), []
        stream = EventStream(follow(prediction), lambda: left.append(True))
        serving = asyncio.ensure_future(stream({}, reader.receive, reader.send))
        await until(lambda: b"start" in reader.body)
        reader.gone.set()
        await serving
        assert reader.sent[-1].get("more_body")  # no end is told to nobody
        return left, prediction.events.followers

    assert run(leave()) == ([True], 0)


def test_a_reader_whose_connection_breaks_counts_as_gone():
    async def break_off():
        prediction, reader, left = started(), Reader(), []

        async def send(message):
            if message["type"] == "http.response.body":
                raise OSError("broken pipe")

        stream = EventStream(follow(prediction), lambda: left.append(True))
        try:
            await stream({}, reader.receive, send)
        except OSError:
            return left, prediction.events.followers
        return None

    assert run(break_off()) == ([True], 0)


def test_a_stream_that_fails_in_the_middle_has_no_end():
    async def fail():
        async def portions():
            yield b"event: start\n\n"
            raise httpx2.RemoteProtocolError("the other server has left")

        reader = Reader()
        await EventStream(portions())({}, reader.receive, reader.send)
        return reader

    last = run(fail()).sent[-1]
    assert (last["body"], last["more_body"]) == (b"event: start\n\n", True)


def test_a_long_pause_is_filled_with_comments(monkeypatch):
    monkeypatch.setattr(streams, "KEEP_ALIVE_SECONDS", 0.01)

    async def pause():
        prediction, reader, left = started(), Reader(), []
        stream = EventStream(follow(prediction), lambda: left.append(True))
        serving = asyncio.ensure_future(stream({}, reader.receive, reader.send))
        await until(lambda: reader.body.endswith(b":\n\n:\n\n"))
        prediction.add_output(b'"late"')
        end(prediction)
        await serving
        return reader, left

    reader, left = run(pause())
    assert (b"x-accel-buffering", b"no") in reader.sent[0]["headers"]
    assert b'"late"' in reader.body
    assert b"event: completed" in reader.body
    assert left == []


def test_no_character_breaks_a_line_of_data():
    data = encode({"chunk": "a\u2028b\u2029c\u0085d"})
    written = write_event(RunEvent(1, "output", data))
    assert len(written.decode().splitlines()) == 3
    assert json.loads(written.split(b"data: ")[1]) == {"chunk": "a\u2028b\u2029c\u0085d"}


@pytest.mark.parametrize("line_break", ["\r", "\n", "\r\n", "\r\r", "\n\r\n"])
@pytest.mark.parametrize("name", ["output", "log"])
def test_no_line_break_in_a_text_makes_an_event_of_its_own(name, line_break):
    text = f"a{line_break}event: done{line_break}data: {{}}{line_break}{line_break}b"
    value = {"chunk": text, "index": 0} if name == "output" else {"source": "stdout", "data": text}

    written = write_translated(RunEvent(1, name, encode(value))).decode()
    lines = re.split("\r\n|\r|\n", written.removesuffix("\n\n"))
    assert lines[:2] == ["id: 1", f"event: {name.replace('log', 'logs')}"]
    assert all(line.startswith("data: ") for line in lines[2:])

"""The events of what has ended, made from its record."""

import asyncio
import json
from datetime import UTC, datetime

import msgspec
import pytest

from cog_adapt.server.api.past_events import past_events
from cog_adapt.server.api.sse import write_numbered
from cog_adapt.server.records import Record

RECORD = Record(
    id="e1",
    kind="predict",
    status="succeeded",
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
    logs="a line\n",
    metrics='{"adaptation":{"loss":0.5,"step":3},"predict_time":1.0,"tokens":2}',
    output='["a","b"]',
)


def events_after(after, record=RECORD):
    async def collect():
        return b"".join(
            [part async for part in past_events(record, after, write_numbered)]
        ).decode()

    blocks = asyncio.run(collect()).removesuffix("\n\n").split("\n\n")
    return [dict(line.split(": ", 1) for line in block.split("\n")) for block in blocks]


def test_a_replay_begins_after_the_event_that_was_seen():
    assert [event["id"] for event in events_after(5)] == ["6", "7", "8"]
    # who has seen the last one gets it again
    assert [(event["id"], event["event"]) for event in events_after(8)] == [("9", "completed")]


@pytest.mark.parametrize(
    ("output", "chunks", "whole"),
    [(None, [], None), ("null", [], None), ('"a"', ["a"], "a"), ("[]", [], []), ("0", [0], 0)],
)
def test_an_output_is_told_in_its_chunks_and_whole(output, chunks, whole):
    record = msgspec.structs.replace(RECORD, output=output, logs="", metrics="{}")
    events = events_after(0, record)
    found = [json.loads(each["data"])["chunk"] for each in events if each["event"] == "output"]
    assert found == chunks
    assert json.loads(events[-1]["data"])["output"] == whole
    assert [event["event"] for event in events][:1] == ["start"]
    assert "log" not in [event["event"] for event in events]


def test_metrics_inside_a_group_come_after_it_by_their_dotted_names():
    record = msgspec.structs.replace(RECORD, metrics='{"a":{"b":{"c":1},"d":2},"e":3}')
    metrics = [json.loads(e["data"]) for e in events_after(0, record) if e["event"] == "metric"]
    assert [(each["name"], each["value"]) for each in metrics] == [
        ("e", 3),
        ("a.d", 2),
        ("a.b.c", 1),
    ]

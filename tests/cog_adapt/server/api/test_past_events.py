"""The events of what has ended, told from its record."""

import asyncio
import json
from datetime import UTC, datetime

from cog_adapt.server.api.past_events import past_events
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


def told(after):
    async def collect():
        return b"".join([part async for part in past_events(RECORD, after)]).decode()

    blocks = asyncio.run(collect()).removesuffix("\n\n").split("\n\n")
    return [dict(line.split(": ", 1) for line in block.split("\n")) for block in blocks]


def test_a_record_tells_its_logs_its_last_metrics_and_its_output():
    events = told(0)
    names = ["start", "log", "metric", "metric", "metric", "output", "output", "completed"]
    assert [event["event"] for event in events] == names
    metrics = [json.loads(event["data"]) for event in events[2:5]]
    assert sorted((each["name"], each["value"]) for each in metrics) == [
        ("adaptation.loss", 0.5),
        ("adaptation.step", 3),
        ("tokens", 2),
    ]


def test_a_replay_begins_after_the_event_that_was_seen():
    assert [event["id"] for event in told(5)] == ["6", "7", "8"]
    assert [(event["id"], event["event"]) for event in told(30)] == [("31", "completed")]

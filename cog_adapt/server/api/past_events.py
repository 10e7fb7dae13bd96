"""Makes the events of an ended prediction from its record."""

from collections.abc import AsyncGenerator, Iterator
from typing import Any

import msgspec

from cog_adapt.server.api.responses import record_body
from cog_adapt.server.api.sse import Write
from cog_adapt.server.records import Record
from cog_adapt.server.service.events import RunEvent
from cog_adapt.server.service.prediction import encode


async def past_events(record: Record, after: int, write: Write) -> AsyncGenerator[bytes]:
    """Yield the events that a record keeps, with the logs in one piece."""
    account = record_body(record) | {"output": msgspec.Raw((record.output or "null").encode())}
    past: list[tuple[str, bytes]] = [("start", encode({"id": record.id, "status": "processing"}))]
    if record.logs:
        past.append(("log", encode({"source": "stdout", "data": record.logs})))
    past += [("metric", encode(metric)) for metric in _metrics_of(record)]
    output = msgspec.json.decode(record.output or "null")
    chunks = output if isinstance(output, list) else [] if output is None else [output]
    past += [("output", encode({"chunk": c, "index": i})) for i, c in enumerate(chunks)]
    past.append(("completed", encode(account)))
    events = [RunEvent(number, name, data) for number, (name, data) in enumerate(past, 1)]
    if after >= len(events):  # the live stream had more numbers than the record has events
        events = [RunEvent(after + 1, events[-1].name, events[-1].data)]
        after = 0
    yield b"".join(write(event) for event in events if event.number > after)


def _metrics_of(record: Record) -> Iterator[dict[str, Any]]:
    """Yield the last values, under the dotted names of the live events."""
    groups: list[tuple[str, Any]] = [("", msgspec.json.decode(record.metrics))]
    for name, value in groups:  # the list grows: the items of a group are read after the group
        if isinstance(value, dict):
            groups += [(f"{name}.{key}" if name else key, inner) for key, inner in value.items()]
        elif name != "predict_time":
            yield {"name": name, "value": value, "mode": "replace"}

"""Renames events as Replicate's platform does, for its official clients.

Text is sent as text and not as JSON: `output` is a chunk, `logs` is printed text, `error` has the
reason, and `done` is the last event.
"""

from typing import Any

import msgspec

from cog_adapt.server.service.events import RunEvent

_REASONS = {"failed": "error", "canceled": "canceled"}


def translate(event: RunEvent) -> list[RunEvent]:
    """Return the events for Replicate's clients; none if the platform sends no such event.

    An event is kept as one JSON text for all its readers, and weighed as such; so the one reader
    who wants the text in it decodes that, of the three events where it is wanted.
    """
    if event.name not in ("output", "log", "completed"):
        return [event] if event.name == "error" else []
    content: Any = msgspec.json.decode(event.data)
    match event.name:
        case "output":
            chunk = content["chunk"]
            text = chunk if isinstance(chunk, str) else msgspec.json.encode(chunk).decode()
            return [RunEvent(event.number, "output", text.encode())]
        case "log":
            return [RunEvent(event.number, "logs", content["data"].encode())]
    reason = _REASONS.get(content["status"])
    done = msgspec.json.encode({"reason": reason} if reason else {})
    end = RunEvent(event.number, "done", done)
    if content["status"] != "failed":
        return [end]
    return [RunEvent(event.number, "error", content["error"].encode()), end]

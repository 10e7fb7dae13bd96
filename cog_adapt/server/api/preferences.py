"""Reads how a client wants its answer: the headers Accept, Prefer (RFC 7240) and Cancel-After."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from cog_adapt.server.api.shapes import DURATION
from cog_adapt.server.errors import InvalidRequest

EVENT_STREAM = "text/event-stream"
_WAIT = re.compile(r"wait(?:=(\d+))?")
_DURATION = re.compile(DURATION)
_UNITS = {None: 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class Preferences:
    """How a client wants its answer.

    Attributes:
        is_stream: answer with server-sent events.
        is_async: answer at once, without the outcome.
        wait: seconds to wait for the outcome at most; None: as long as it takes.
        cancel_after: seconds until the prediction is cancelled; None: never.
    """

    is_stream: bool = False
    is_async: bool = False
    wait: float | None = None
    cancel_after: float | None = None


def read_preferences(headers: Mapping[str, str], *, strict: bool) -> Preferences:
    """Read what the headers ask for; Cog (`strict`) knows `Prefer: respond-async` alone.

    Raises:
        InvalidRequest: Cancel-After is not a duration.
    """
    seconds = _read_duration(headers.get("cancel-after"))
    if EVENT_STREAM in headers.get("accept", ""):
        return Preferences(is_stream=True, cancel_after=seconds)
    prefer = headers.get("prefer", "")
    if strict or prefer in ("", "respond-async"):
        return Preferences(is_async=prefer == "respond-async", cancel_after=seconds)
    preferred = [each.strip().lower() for each in prefer.split(",")]
    waits = [match for each in preferred if (match := _WAIT.fullmatch(each))]
    if waits and waits[0][1]:
        return Preferences(wait=float(waits[0][1]), cancel_after=seconds)
    return Preferences(is_async="respond-async" in preferred, cancel_after=seconds)


def _read_duration(text: str | None) -> float | None:
    if text is None:
        return None
    match = _DURATION.fullmatch(text)
    if match is None:
        raise InvalidRequest(
            f"Cancel-After is {text[:20]!r}; allowed: a time such as 30s, 5m or 1h.",
            ("header", "cancel-after"),
        )
    return float(match[1]) * _UNITS[match[2]]

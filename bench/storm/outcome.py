"""What a client saw of its request."""

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from bench.storm.requests import Planned

FINAL = ("succeeded", "failed", "canceled")


@dataclass
class Outcome:
    """What a client saw of its request.

    Attributes:
        planned: the request.
        was_accepted: whether a server has accepted it.
        ends: each status that an answer or an event called final, in order.
        error: of a failed run.
        ended_at: the time of the first end, in seconds since the boot.
        cancel: the status of the answer to the cancel, where there was one.
        is_late: whether its client gave up before the end; the end is looked for afterwards.
        broken: descriptions of answers that break a promise.
        refused: answers after which the client asked again, by status; 0 is a lost connection.
    """

    planned: Planned
    was_accepted: bool = False
    ends: list[str] = field(default_factory=list)
    error: str = ""
    ended_at: float = 0.0
    cancel: int | None = None
    is_late: bool = False
    broken: list[str] = field(default_factory=list)
    refused: Counter[int] = field(default_factory=Counter)

    def note_end(self, body: dict[str, Any]) -> None:
        """Note a body that tells the end."""
        self.ends.append(body["status"])
        self.error = body.get("error") or ""
        self.ended_at = self.ended_at or time.monotonic()

"""What the clients of a storm ask for."""

import random
from dataclasses import dataclass
from typing import Any, Literal

from bench.storm.servers import OWNERS

Purpose = Literal["prediction", "adaptation", "training", "stream", "cancel"]
SHARES: dict[Purpose, float] = {
    "prediction": 0.50,
    "adaptation": 0.25,
    "training": 0.02,
    "stream": 0.13,
    "cancel": 0.10,
}
"""The share of each purpose in all requests."""

_TICKETS = 40
_SERIES: dict[Purpose, int] = {"adaptation": 1, "stream": 1, "cancel": 2, "training": 3}
_WITHOUT_RETRIES = 0.1
_WITH_WEBHOOK = 0.4
_WAITING = 0.5  # of predictions and adaptations; the others are answered with 202
_COMPLAINTS = (
    "ticket {n}: the parcel never came",
    "ticket {n}: where is my money",
    "ticket {n}: it came broken and late",
    "ticket {n}: i want to send it back",
)
_THANKS = (
    "ticket {n}: what a lovely surprise",
    "ticket {n}: thank you, all is well",
    "ticket {n}: quick and friendly help",
    "ticket {n}: i will order again",
)


@dataclass(frozen=True)
class Planned:
    """One request of a storm.

    Attributes:
        id: the client's, unique.
        owner: who asks.
        purpose: what for.
        body: of the request.
        waits: whether the client waits for the end on its connection.
        retries: how often the run may begin again.
        ticket: the number in its examples, equal for requests of one owner's equal adaptation.
    """

    id: str
    owner: str
    purpose: Purpose
    body: dict[str, Any]
    waits: bool
    retries: int
    ticket: str = ""

    @property
    def path(self) -> str:
        """The path of its record."""
        noun = "trainings" if self.purpose == "training" else "predictions"
        return f"/{noun}/{self.id}"


def plan(count: int, seed: int, webhook_url: str) -> list[Planned]:
    """Return the requests of a storm in a random order, the same for the same seed."""
    draw = random.Random(seed)
    purposes = [each for each, share in SHARES.items() for _ in range(round(share * count))]
    draw.shuffle(purposes)
    return [_planned(number, each, draw, webhook_url) for number, each in enumerate(purposes)]


def _planned(number: int, purpose: Purpose, draw: random.Random, webhook_url: str) -> Planned:
    owner = draw.choice(list(OWNERS))
    retries = 0 if draw.random() < _WITHOUT_RETRIES else 3
    waits = purpose in ("prediction", "adaptation") and draw.random() < _WAITING
    ticket = "" if purpose == "prediction" else _ticket(purpose, owner, draw)
    body: dict[str, Any] = {"input": _input(purpose, ticket)}
    if retries:
        body["retries"] = retries
    if draw.random() < _WITH_WEBHOOK:
        body |= {"webhook": webhook_url, "webhook_events_filter": ["start", "completed"]}
    return Planned(f"{owner}-{number}", owner, purpose, body, waits, retries, ticket)


def _ticket(purpose: Purpose, owner: str, draw: random.Random) -> str:
    """Draw an adaptation's number; those of other owners and other recipes differ."""
    return f"{_SERIES[purpose]}{list(OWNERS).index(owner)}{draw.randrange(_TICKETS):02}"


def _input(purpose: Purpose, ticket: str) -> dict[str, Any]:
    if purpose == "prediction":
        return {"text": "where is my parcel", "labels": ["complaint", "thanks"]}
    examples = [
        {"text": text.format(n=ticket), "label": label}
        for label, texts in (("complaint", _COMPLAINTS), ("thanks", _THANKS))
        for text in texts
    ]
    common = {"examples": examples, "method": "lora"}
    if purpose == "training":
        return common | {"steps": 30, "hold_out": 0.0}
    return common | {"steps": 60 if purpose == "cancel" else 10, "text": "the parcel is lost"}

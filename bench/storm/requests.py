"""What the clients of a storm ask for."""

import random
from dataclasses import dataclass
from typing import Any, Literal

from bench.storm.servers import OWNERS

Purpose = Literal["prediction", "adaptation", "training", "stream", "cancel"]
SHARES: dict[Purpose, float] = {
    "prediction": 0.40,
    "adaptation": 0.30,
    "training": 0.04,
    "stream": 0.14,
    "cancel": 0.12,
}
"""The share of each purpose in all requests."""

WITHOUT_RETRIES = 0.25
"""The share of requests that must not run again."""

_TICKETS = 60
_SERIES: dict[Purpose, int] = {"adaptation": 1, "stream": 1, "cancel": 2, "training": 3}
_TIMES: dict[Purpose, int] = {"adaptation": 1, "stream": 1, "cancel": 2, "training": 3}
_SECONDS = 600.0  # of an adaptation at most: on a busy machine it ends by its steps
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

    @property
    def run_id(self) -> str:
        """The worker's name for its run."""
        name = f"{self.owner}/{self.id}"
        return f"+/{name}" if self.purpose == "training" else name

    @property
    def is_accepted_for_good(self) -> bool:
        """Whether it survives its server: no client waits for it alone."""
        return not self.waits or "webhook" in self.body or self.retries > 0


def plan(count: int, seed: int, webhook_url: str, steps: int) -> list[Planned]:
    """Return the requests of a storm in a random order, the same for the same seed.

    Args:
        count: the number of requests.
        seed: of all that is drawn.
        webhook_url: where some of them want their webhooks.
        steps: of an adaptation; twice as many to be canceled, three times as many of a training.
    """
    draw = random.Random(seed)
    purposes = [each for each, share in SHARES.items() for _ in range(round(share * count))]
    draw.shuffle(purposes)
    drawer = _Drawer(draw, webhook_url, steps)
    return [drawer.planned(number, each) for number, each in enumerate(purposes)]


@dataclass(frozen=True)
class _Drawer:
    """Draws requests."""

    draw: random.Random
    webhook_url: str
    steps: int

    def planned(self, number: int, purpose: Purpose) -> Planned:
        draw = self.draw
        owner = draw.choice(list(OWNERS))
        retries = 0 if draw.random() < WITHOUT_RETRIES else 3
        waits = purpose in ("prediction", "adaptation") and draw.random() < _WAITING
        ticket = "" if purpose == "prediction" else _ticket(purpose, owner, draw)
        body: dict[str, Any] = {"input": _input(purpose, ticket, self.steps)}
        if retries:
            body["retries"] = retries
        if draw.random() < _WITH_WEBHOOK:
            body |= {"webhook": self.webhook_url, "webhook_events_filter": ["start", "completed"]}
        return Planned(f"{owner}-{number}", owner, purpose, body, waits, retries, ticket)


def _ticket(purpose: Purpose, owner: str, draw: random.Random) -> str:
    """Draw an adaptation's number; those of other owners and other recipes differ."""
    return f"{_SERIES[purpose]}{list(OWNERS).index(owner)}{draw.randrange(_TICKETS):02}"


def _input(purpose: Purpose, ticket: str, steps: int) -> dict[str, Any]:
    if purpose == "prediction":
        return {"text": "where is my parcel", "labels": ["complaint", "thanks"]}
    examples = [
        {"text": text.format(n=ticket), "label": label}
        for label, texts in (("complaint", _COMPLAINTS), ("thanks", _THANKS))
        for text in texts
    ]
    common = {"examples": examples, "method": "lora", "steps": steps * _TIMES[purpose]}
    if purpose == "training":
        return common | {"hold_out": 0.0}
    return common | {"budget_seconds": _SECONDS, "text": "the parcel is lost"}

"""The two sides, each in its own words: what is asked of it, and how its answers are read."""

import http.client
import itertools
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from bench import sets
from bench.serving_servers import Served

LABELS = ("billing", "delivery", "login", "refund")
RATE = 1.8e-3  # the runner's own for LoRA at this width
EXAMPLES, TESTED = 4, 20  # of a label
_ANSWER_SECONDS = 300.0
_JSON = {"Content-Type": "application/json"}
Inputs = Mapping[str, Any]


@dataclass(frozen=True)
class Answered:
    """An answer: the adapter that gave it, and the scores of each label for each text."""

    adapter: str
    scores: Sequence[Mapping[str, float]]


@dataclass
class Side(ABC):
    """One way to serve the model.

    Attributes:
        served: the replica's process, behind the proxy's port.
        seeds: a new one for each adaptation, so that none is known before.
    """

    served: Served
    steps: int
    seeds: Iterator[int] = field(default_factory=lambda: itertools.count(1000))

    @property
    def name(self) -> str:
        """The side's name in the table."""
        return self.served.name

    def adapt(self, texts: Sequence[str], seed: int | None = None, steps: int = 0) -> Answered:
        """Adapt to the examples, and answer."""
        chosen = next(self.seeds) if seed is None else seed
        return self._ask(*self.adaptation(texts, chosen, steps or self.steps))

    def predict(self, texts: Sequence[str], adapter: str) -> Answered:
        """Answer by an adapter."""
        return self._ask(*self.prediction(texts, adapter))

    def _ask(self, path: str, inputs: Inputs) -> Answered:
        with closing(self.connect()) as connection:
            self.send(connection, path, inputs)
            answer = connection.getresponse()
            content = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{self.name} answered {answer.status}: {content[:500]!r}")
        return self.read(json.loads(content))

    def connect(self) -> http.client.HTTPConnection:
        """Return a connection to the proxy."""
        return http.client.HTTPConnection("127.0.0.1", self.served.port, timeout=_ANSWER_SECONDS)

    def send(self, connection: http.client.HTTPConnection, path: str, inputs: Inputs) -> None:
        """Send a request, and leave its answer to be read."""
        connection.request("POST", path, json.dumps(inputs), _JSON)

    @abstractmethod
    def adaptation(self, texts: Sequence[str], seed: int, steps: int) -> tuple[str, Inputs]:
        """Return path and body of a request with examples."""

    @abstractmethod
    def prediction(self, texts: Sequence[str], adapter: str = "") -> tuple[str, Inputs]:
        """Return path and body of a request by an adapter, or by the base with `LABELS`."""

    @abstractmethod
    def read(self, body: Any) -> Answered:  # noqa: ANN401 - JSON
        """Read the body of an answer."""


class Ours(Side):
    """This project's server."""

    def adaptation(self, texts: Sequence[str], seed: int, steps: int) -> tuple[str, Inputs]:
        """Return a prediction with examples; `fresh`: it begins at the base, as by hand."""
        own = {"method": "lora", "rank": 8, "learning_rate": RATE, "steps": steps, "seed": seed}
        inputs = {"texts": [*texts], "examples": examples(), "fresh": True, **own}
        return "/predictions", {"input": inputs}

    def prediction(self, texts: Sequence[str], adapter: str = "") -> tuple[str, Inputs]:
        """Return a prediction."""
        by = {"adapter": adapter} if adapter else {"labels": LABELS}
        return "/predictions", {"input": {"texts": [*texts], **by}}

    def read(self, body: Any) -> Answered:  # noqa: ANN401 - JSON
        """Read a prediction that succeeded."""
        output = body["output"]
        scores = [each["scores"] for each in output["predictions"]]
        return Answered(output["adapter"] or "", scores)


class ByHand(Side):
    """The deployment of `by_hand_app.py`."""

    def adaptation(self, texts: Sequence[str], seed: int, steps: int) -> tuple[str, Inputs]:
        """Return a lesson."""
        own = {"texts": [*texts], "examples": examples()}
        return "/hand/adapt", own | {"steps": steps, "learning_rate": RATE, "seed": seed}

    def prediction(self, texts: Sequence[str], adapter: str = "") -> tuple[str, Inputs]:
        """Return a question."""
        by = {"adapter": adapter} if adapter else {"labels": LABELS}
        return "/hand/predict", {"texts": [*texts], **by}

    def read(self, body: Any) -> Answered:  # noqa: ANN401 - JSON
        """Read scores."""
        return Answered(body.get("adapter", ""), body["scores"])


def examples() -> list[dict[str, str]]:
    """Return the labelled texts of every adaptation."""
    texts = sets.load("tickets").texts
    return [{"text": t, "label": label} for label in LABELS for t in texts[label][:EXAMPLES]]


def tested() -> list[dict[str, str]]:
    """Return labelled texts that no adaptation has seen."""
    texts = sets.load("tickets").texts
    return [{"text": t, "label": label} for label in LABELS for t in texts[label][-TESTED:]]

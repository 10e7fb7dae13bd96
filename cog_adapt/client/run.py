"""The result of a prediction or training, and the events on the way to it."""

from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["predict", "train"]
FINAL = ("succeeded", "failed", "canceled")


@dataclass(frozen=True)
class Run:
    """A prediction or training, as the server's record describes it.

    Attributes:
        record: the record; docs/page-api.md lists its fields.
    """

    record: dict[str, Any]

    @property
    def id(self) -> str:
        """The id, chosen by the client."""
        return str(self.record.get("id"))

    @property
    def status(self) -> str:
        """`starting`, `processing`, `succeeded`, `failed` or `canceled`."""
        return str(self.record.get("status"))

    @property
    def output(self) -> Any:  # noqa: ANN401 - of the predictor's type
        """The output as JSON; None before the end."""
        return self.record.get("output")

    @property
    def error(self) -> str | None:
        """The cause of a failure."""
        return self.record.get("error")

    @property
    def logs(self) -> str:
        """The printed lines."""
        return self.record.get("logs") or ""

    @property
    def metrics(self) -> dict[str, Any]:
        """The recorded metrics, nested."""
        return self.record.get("metrics") or {}


@dataclass(frozen=True)
class Event:
    """An event of a run.

    Attributes:
        name: `queued`, `start`, `log`, `metric`, `output`, `error` (events are missing), or
            `completed`.
        data: as docs/page-api.md lists it.
        number: its place in the run, for `follow(after=…)`; 0 if the server gives none.
    """

    name: str
    data: dict[str, Any]
    number: int = 0

    @property
    def log(self) -> str | None:
        """The printed text of a `log`."""
        return self.data.get("data") if self.name == "log" else None

    @property
    def chunk(self) -> Any:  # noqa: ANN401 - of the predictor's type
        """The piece of an `output`."""
        return self.data.get("chunk") if self.name == "output" else None

    @property
    def step(self) -> Any:  # noqa: ANN401 - a whole number, or None
        """The number of an adaptation's step that has ended."""
        return self._metric("adaptation.step")

    @property
    def loss(self) -> Any:  # noqa: ANN401 - a number, or None
        """The loss of that step, which is an event of its own."""
        return self._metric("adaptation.loss")

    @property
    def early(self) -> Any:  # noqa: ANN401 - an object, or None
        """An early answer: its `predictions`, and what is `expected` of them."""
        return self._metric("early")

    @property
    def run(self) -> Run | None:
        """The ended run of a `completed`."""
        return Run(self.data) if self.name == "completed" else None

    def _metric(self, name: str) -> Any:  # noqa: ANN401 - of any type
        is_asked = self.name == "metric" and self.data.get("name") == name
        return self.data.get("value") if is_asked else None

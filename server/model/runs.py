"""What sync and async runs share: where outputs go, and what they are made with."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from server.model.active import ActivePrediction, Send
from server.model.input_files import Downloads, InputFiles
from server.model.outcomes import encoding_output
from server.model.output_files import DataUrls, Destination, Uploads
from server.model.output_values import to_json
from server.model.plan import Plan
from server.model.predictor import Predictor
from server.protocol import Kind, Output, Run


class Runs(Protocol):
    """Runs predictions, one way or the other."""

    def start(self, request: Run) -> None:
        """Begin one."""

    def cancel(self, id: str) -> None:
        """End one early; its `Finished` comes all the same."""

    def when_idle(self, then: Callable[[], None]) -> None:
        """Call `then` once nothing runs."""


@dataclass(frozen=True)
class Surroundings:
    """What a run is made with."""

    plan: Plan
    predictor: Predictor
    downloads: Downloads
    send: Send

    def activate(self, request: Run) -> ActivePrediction:
        """The prediction of a request; it begins when the model gets to it."""
        return ActivePrediction(request, self.send)

    def input_files(self) -> InputFiles:
        """For one prediction."""
        return InputFiles(self.downloads)

    def destination(self, active: ActivePrediction) -> Destination:
        """Of the files that the prediction returns."""
        if self.plan.upload_url is None:
            return DataUrls()
        return Uploads(self.plan.upload_url, active.request.id)


def stage_name(kind: Kind, *, is_async: bool = False) -> str:
    """What a failure in run() or train() is called."""
    what = "training" if kind == "train" else "prediction"
    return f"Async {what} failed" if is_async else f"{what.capitalize()} failed"


def send_output(
    active: ActivePrediction, value: object, destination: Destination, what: str
) -> None:
    """Encode one output and send it."""
    with encoding_output(what):
        chunk = to_json(value, destination)
    active.send(Output(active.request.id, chunk))

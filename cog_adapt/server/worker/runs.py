"""What sync and async runs share."""

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cog_adapt.server.protocol import Cancel, Kind, Run
from cog_adapt.server.worker.active import ActivePrediction
from cog_adapt.server.worker.config import WorkerConfig
from cog_adapt.server.worker.connection import Connection
from cog_adapt.server.worker.downloads import Downloads, InputFiles
from cog_adapt.server.worker.output_files import OutputFiles
from cog_adapt.server.worker.predictor import Predictor
from cog_adapt.server.worker.uploads import DataUrls, Uploads


class Runs(Protocol):
    """Runs predictions as they come, one way or the other, until Stop."""

    def cancel(self, request: Cancel) -> None:
        """End one early; its `Finished` comes all the same."""


@dataclass(frozen=True)
class RunContext:
    """What a run is made with."""

    config: WorkerConfig
    predictor: Predictor
    downloads: Downloads
    connection: Connection
    kept_folders: tuple[Path, ...] = ()

    def activate(self, request: Run) -> ActivePrediction:
        """The prediction of a request."""
        return ActivePrediction(request, self.connection.send, self.connection.add)

    def input_files(self) -> InputFiles:
        """For one prediction."""
        return InputFiles(self.downloads)

    def output_files(self, active: ActivePrediction) -> OutputFiles:
        """What takes the files that the prediction returns."""
        url = self.config.upload_url
        destination = DataUrls() if url is None else Uploads(url, active.request.id)
        return OutputFiles(destination, self.kept_folders)


def stage_name(kind: Kind, *, is_async: bool = False) -> str:
    """What a failure in run() or train() is called."""
    what = "training" if kind == "train" else "prediction"
    return f"Async {what} failed" if is_async else f"{what.capitalize()} failed"


class Cancels:
    """The cancels that came before their `Run`, which travels by another socket.

    `add` and then a look at what runs on the one side, what runs and then `begin` on the other:
    whichever comes first, no cancel is lost. One that comes after the end is dropped.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun = 0
        self._early: dict[str, int] = {}

    def add(self, request: Cancel) -> None:
        """A cancel has come."""
        with self._lock:
            if request.runs > self._begun:
                self._early[request.id] = request.runs

    def begin(self, prediction_id: str) -> bool:
        """A run begins; whether it has been cancelled already."""
        with self._lock:
            self._begun += 1
            is_cancelled = self._early.pop(prediction_id, 0) >= self._begun
            for other in [key for key, runs in self._early.items() if runs <= self._begun]:
                del self._early[other]  # it ran when its cancel came
        return is_cancelled

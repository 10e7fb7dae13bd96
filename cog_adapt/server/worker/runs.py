"""The parts that sync and async runs share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cog_adapt.server.protocol import Finished, Kind, Report, Run
from cog_adapt.server.worker.active import ActivePrediction
from cog_adapt.server.worker.config import WorkerConfig
from cog_adapt.server.worker.connection import Connection
from cog_adapt.server.worker.downloads import Downloads, InputFiles
from cog_adapt.server.worker.output_files import OutputFiles
from cog_adapt.server.worker.predictor import Predictor
from cog_adapt.server.worker.uploads import DataUrls, FileUploads


class Runs(Protocol):
    """Runs predictions, sync or async; only the reading thread calls these methods."""

    def start(self, request: Run) -> None:
        """Start a run, as soon as there is room."""

    def cancel(self, prediction_id: str) -> None:
        """End a run early if it was started and has not ended; its `Finished` is still sent."""

    def stop(self) -> None:
        """Start no more runs; those already started may end."""


@dataclass(frozen=True)
class RunContext:
    """The parts of each run.

    Attributes:
        last_words: the beat to send before the end of a failed run: if the process is unusable, it
            must get no other run.
    """

    config: WorkerConfig
    predictor: Predictor
    downloads: Downloads
    connection: Connection
    kept_folders: tuple[Path, ...] = ()
    last_words: Callable[[], Sequence[Report]] = tuple

    def activate(self, request: Run) -> ActivePrediction:
        """Make the active prediction of a request."""
        return ActivePrediction(request, self._send)

    def _send(self, report: Report) -> None:
        has_failed = isinstance(report, Finished) and report.status == "failed"
        words = self.last_words() if has_failed else ()
        self.connection.send(*words, report)

    def input_files(self, owner: str = "") -> InputFiles:
        """Make the object that fetches the input files of an owner's prediction."""
        return InputFiles(self.downloads.of(owner))

    def output_files(self, active: ActivePrediction) -> OutputFiles:
        """Make the object that receives the prediction's output files."""
        url = self.config.upload_url
        destination = DataUrls() if url is None else FileUploads(url, active.request.shown_id)
        return OutputFiles(destination, self.kept_folders)


def stage_name(kind: Kind, *, is_async: bool = False) -> str:
    """Return the name of a failure in run() or train()."""
    what = "training" if kind == "train" else "prediction"
    return f"Async {what} failed" if is_async else f"{what.capitalize()} failed"

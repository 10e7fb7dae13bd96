"""A predictor that writes down which process runs what, and whose setup breaks on one device."""

import os
from collections.abc import Iterator

import cog
from cog import Input, Path

from tests.cog_adapt.faults.recording_predictor import Predictor, Several, note, obey

DEVICE = os.environ.get("CUDA_VISIBLE_DEVICES", "")


class Placed(Predictor):
    def setup(self) -> None:
        note("places", f"{os.getpid()} {DEVICE} {os.environ.get('OMP_NUM_THREADS')}")
        obey(f"setup-{DEVICE}")

    @cog.streaming
    def run(
        self,
        name: str = Input(),
        action: str = Input(default="nothing"),
        seconds: float = Input(default=0.0),
        file: Path | None = Input(default=None),
    ) -> Iterator[str]:
        note("ran", f"{name} {os.getpid()}")
        note("files", f"{name} {file}")
        note("begun", name)
        yield DEVICE
        getattr(self, action)(seconds)
        note("ended", name)


class Both(Several):
    """One object that predicts and trains."""

    async def train(self, name: str = Input()) -> str:
        async for _ in self.run(name, "gate"):
            pass
        return f"{name} {os.getpid()}"

"""A training function, and a class with train() and run()."""

import tempfile
import time
from pathlib import Path as LocalPath

import cog
from cog import BaseModel, BaseRunner, Input


def note_begun() -> None:
    """Tell the test, by one more letter in a file, that work has begun."""
    with open("begun", "a") as begun:
        begun.write("x")


class TrainingOutput(BaseModel):
    weights: cog.Path


def train(
    name: str = Input(description="name of the result"),
    steps: int = Input(default=1, ge=1, le=1000),
    seconds: float = 0.0,
    fail: bool = False,
) -> TrainingOutput:
    for step in range(steps):
        print(f"step {step}", flush=True)
        cog.current_scope().record_metric("step", step)
        note_begun()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(0.005)
    if fail:
        raise ValueError("boom")
    path = LocalPath(tempfile.mkdtemp()) / "weights.bin"
    path.write_bytes(name.encode())
    return TrainingOutput(weights=cog.Path(path))


class Trainer(BaseRunner):
    def setup(self) -> None:
        self.greeting = "set up"

    def run(self, text: str = "t") -> str:
        return f"predicted {text}"

    def train(self, name: str, steps: int = 1) -> str:
        return f"{self.greeting} {name} {steps}"

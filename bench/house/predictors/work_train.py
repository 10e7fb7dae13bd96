"""A training that writes a file."""

import tempfile
import time
from pathlib import Path as LocalPath

import cog
from cog import BaseModel, Input, Path


class TrainingOutput(BaseModel):  # type: ignore[misc]
    """What was made."""

    weights: Path


def train(
    name: str = Input(description="name of the result"),
    steps: int = Input(default=1, ge=1, le=1000),
) -> TrainingOutput:
    """Make a file."""
    for step in range(steps):
        print(f"step {step}", flush=True)
        cog.current_scope().record_metric("adaptation.step", step)
        cog.current_scope().record_metric("adaptation.loss", 1.0)
        time.sleep(0.15)
    path = LocalPath(tempfile.mkdtemp()) / "weights.bin"
    path.write_bytes(name.encode())
    return TrainingOutput(weights=Path(path))

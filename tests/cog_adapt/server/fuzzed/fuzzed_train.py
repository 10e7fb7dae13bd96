"""A training beside it."""

from cog import BaseModel, Input


class TrainingOutput(BaseModel):
    steps: int


def train(
    name: str = Input(default="n", min_length=1), steps: int = Input(default=1, ge=1, le=3)
) -> TrainingOutput:
    return TrainingOutput(steps=steps)

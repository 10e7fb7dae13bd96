"""A streaming predictor with inputs of most kinds; none is a file, so that nothing is fetched."""

from collections.abc import Iterator

import cog
from cog import BasePredictor, Input, Secret


class Predictor(BasePredictor):
    @cog.streaming
    def predict(
        self,
        text: str = Input(max_length=20),
        count: int = Input(default=1, ge=0, le=10),
        scale: float = Input(default=1.0),
        flag: bool = Input(default=False),
        colour: str = Input(default="red", choices=["red", "blue"]),
        number: int = Input(default=1, choices=[1, 2]),
        tags: list[str] = Input(default=[]),
        many: list[int] = Input(default=[1]),
        word: str = Input(default="a1", regex="^[a-z][0-9]$"),
        maybe: float | None = Input(default=None, ge=0.5, le=2),
        either: int | str = Input(default=1),
        anything: dict = Input(default={}),
        key: Secret = Input(default=None),
    ) -> Iterator[str]:
        print("said", text)  # noqa: T201 - what a prediction logs
        self.record_metric("score", 1.5)
        yield text
        if flag and count == 7:
            raise ValueError("seven")
        yield colour

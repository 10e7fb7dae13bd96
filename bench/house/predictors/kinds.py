"""Every kind of input, synchronous."""

from typing import Any

from cog import BaseModel, BaseRunner, File, Input, Path, Secret


class Output(BaseModel):  # type: ignore[misc]
    """Some kinds of output."""

    text: str
    numbers: list[float]
    file: Path | None = None


class Predictor(BaseRunner):  # type: ignore[misc]
    """Gives back a little."""

    def run(  # noqa: PLR0913 - that is what it shows
        self,
        s: str,
        i: int = Input(default=1, ge=0, le=10, description="a whole number"),
        f: float = Input(default=0.5, ge=0.0, le=1.0),
        b: bool = False,
        short: str = Input(default="ab", min_length=2, max_length=4),
        pattern: str = Input(default="a1", regex="^[a-z][0-9]$"),
        choice: str = Input(default="red", choices=["red", "green"]),
        number_choice: int = Input(default=1, choices=[1, 2]),
        tags: list[str] = Input(default=["x"]),
        secret: Secret = Input(default=None),
        maybe: str | None = Input(default=None, description="may be left out"),
        anything: Any = Input(default={}),  # noqa: ANN401 - one of the kinds
        mapping: dict = Input(default={}),  # type: ignore[type-arg]
        old: str = Input(default="o", deprecated=True),
        path: Path | None = Input(default=None),
        file: File | None = Input(default=None),
        paths: list[Path] = Input(default=[]),
    ) -> Output:
        """Answer."""
        return Output(text=f"{s} {choice}", numbers=[float(i), f])

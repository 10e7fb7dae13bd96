"""Every type of input; answers with what arrived, as text."""
# ruff: noqa: UP007, UP045 - written as users write them

import os
from typing import Any, Optional, Union

from cog import BaseRunner, File, Input, Path, Secret


def _show(value: object) -> object:
    if isinstance(value, Secret):
        return ["Secret", value.get_secret_value()]
    if isinstance(value, (list, tuple)):
        return [_show(item) for item in value]
    if isinstance(value, os.PathLike):
        with open(value, "rb") as file:
            return [type(value).__name__, file.read().decode()]
    if hasattr(value, "read"):
        content = value.read()
        return ["file", content.decode() if isinstance(content, bytes) else content]
    return [type(value).__name__, value]


class Predictor(BaseRunner):
    def run(
        self,
        s: str,
        n: int = Input(default=None),
        i: int = Input(default=1, ge=0, le=10, description="a whole number"),
        f: float = Input(default=0.5, ge=0.0, le=1.0),
        b: bool = False,
        short: str = Input(default="ab", min_length=2, max_length=4),
        pattern: str = Input(default="a1", regex="^[a-z][0-9]$"),
        choice: str = Input(default="red", choices=["red", "green"]),
        number_choice: int = Input(default=1, choices=[1, 2]),
        tags: list[str] = Input(default=["x"]),
        numbers: list[int] = Input(default=[]),
        secret: Secret = Input(default=None),
        maybe: Optional[str] = Input(default=None, description="may be left out"),
        maybe_number: Optional[int] = None,
        anything: Any = Input(default={}),
        mapping: dict = Input(default={}),
        either: Union[str, int] = Input(default="e"),
        old: str = Input(default="o", deprecated=True),
        path: Optional[Path] = Input(default=None),
        file: Optional[File] = Input(default=None),
        paths: list[Path] = Input(default=[]),
        method: str = Input(default="auto", regex="^(auto|lora)$"),
    ) -> Any:
        values = {key: value for key, value in locals().items() if key != "self"}
        return {key: _show(value) for key, value in values.items()}

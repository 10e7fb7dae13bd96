"""Predictors whose setup fails, each in its own way, and one that takes its time."""
# ruff: noqa: T201 - what it prints is looked at

import os
import sys
import time
from pathlib import Path

from cog import BaseRunner


class _Sound(BaseRunner):
    def run(self, text: str = "t") -> str:
        return text


class Raises(_Sound):
    def setup(self) -> None:
        print("before the end", flush=True)
        raise RuntimeError("no weights")


class Exits(_Sound):
    def setup(self) -> None:
        sys.exit(3)


class Dies(_Sound):
    def setup(self) -> None:
        os._exit(9)


class Slow(_Sound):
    def setup(self) -> None:
        print("slowly", flush=True)
        time.sleep(float(os.environ.get("SETUP_SECONDS", "4")))


class Quick(BaseRunner):
    def setup(self) -> None:
        print("first line")
        print("last words", end="")

    async def healthcheck(self) -> bool:
        return not Path("ill").exists()

    async def run(self, text: str = "t") -> str:
        return text


class Both(BaseRunner):
    def run(self, text: str = "t") -> str:
        return text

    def predict(self, text: str = "t") -> str:
        return text

"""A predictor whose healthcheck() does what the file `health` says."""

import time
from pathlib import Path

from cog import BaseRunner, Input


def note_begun() -> None:
    """Tell the test, by one more letter in a file, that work has begun."""
    with open("begun", "a") as begun:
        begun.write("x")


class Predictor(BaseRunner):
    def healthcheck(self) -> bool:
        with open("calls", "a") as calls:
            calls.write("x")
        word = Path("health").read_text() if Path("health").exists() else "true"
        if word == "raise":
            raise RuntimeError("no GPU left")
        if word.startswith("sleep"):
            time.sleep(float(word.split()[1]))
        return {"false": False, "none": None, "zero": 0}.get(word, True)  # type: ignore[return-value]

    def run(self, text: str = Input(default="t"), seconds: float = Input(default=0.0)) -> str:
        note_begun()
        time.sleep(seconds)
        return text

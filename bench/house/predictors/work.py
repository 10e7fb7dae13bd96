"""A predictor that does what it is told, slowly enough that nothing runs together."""

import os
import time
from collections.abc import Iterator

from cog import BaseRunner, ConcatenateIterator, Input

_APART = 0.15  # s between two things that are told


class Predictor(BaseRunner):  # type: ignore[misc]
    """Says, fails, waits or dies."""

    def setup(self) -> None:
        """Say that it begins."""
        print("setting up", flush=True)

    def run(
        self,
        action: str = Input(default="say", choices=["say", "tell", "fail", "wait", "die", "large"]),
        text: str = Input(default="one two"),
        seconds: float = Input(default=30.0, ge=0, le=60),
    ) -> ConcatenateIterator[str]:
        """Do it."""
        if action == "say":
            return iter(text.split())
        return getattr(self, f"_{action}")(text, seconds)

    def _tell(self, text: str, _: float) -> Iterator[str]:
        for word in text.split():
            print(f"telling {word}", flush=True)
            time.sleep(_APART)
            yield word
            time.sleep(_APART)

    def _fail(self, text: str, _: float) -> Iterator[str]:
        print("about to fail", flush=True)
        time.sleep(_APART)
        self.record_metric("score", 0.5)
        yield text
        time.sleep(_APART)
        raise ValueError(f"failed on {text}")

    def _wait(self, text: str, seconds: float) -> Iterator[str]:
        print("waiting", flush=True)
        time.sleep(_APART)
        yield text
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(0.01)

    def _die(self, *_: object) -> Iterator[str]:
        os._exit(7)
        yield ""

    def _large(self, text: str, _: float) -> Iterator[str]:
        yield text * 500_000

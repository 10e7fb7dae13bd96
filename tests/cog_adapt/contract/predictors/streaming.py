"""A generator that may be streamed; it does what it is told."""
# ruff: noqa: T201, C901 - what it prints is looked at

import os
import sys
import time

import cog
from cog import BaseRunner, ConcatenateIterator, Input


def note_begun() -> None:
    """Tell the test, by one more letter in a file, that work has begun."""
    with open("begun", "a") as begun:
        begun.write("x")


def wait_for_file(path: str) -> None:
    """Wait until the test has made a file, ten seconds at most."""
    end = time.monotonic() + 10
    while not os.path.exists(path):
        if time.monotonic() > end:
            raise TimeoutError(path)
        time.sleep(0.005)


class Predictor(BaseRunner):
    @cog.streaming
    def run(
        self,
        words: str = Input(default="a b c"),
        seconds: float = Input(default=0.0),
        action: str = Input(default="stream"),
        mark: str = Input(default=""),
    ) -> ConcatenateIterator[str]:
        if action == "metrics":
            self.record_metric("score", 0.5)
            self.record_metric("count", 1, mode="incr")
            self.record_metric("count", 2, mode="incr")
            self.record_metric("steps", 1, mode="append")
            self.record_metric("a.b", 1)
        try:
            for word in words.split():
                if action == "log":
                    print(f"word {word}", flush=True)
                    print(f"err {word}", file=sys.stderr, flush=True)
                    wait_for_file(f"{mark}-{word}")
                yield word
                note_begun()
                end = time.monotonic() + seconds
                while time.monotonic() < end:
                    time.sleep(0.005)
            if action == "fail":
                print("failing", flush=True)
                raise ValueError("boom")
        except BaseException as error:
            if mark:
                with open(mark, "w") as trace:
                    trace.write(type(error).__name__)
            raise
        if mark:
            with open(mark, "w") as trace:
                trace.write("ended")

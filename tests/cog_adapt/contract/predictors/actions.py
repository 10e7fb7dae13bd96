"""A synchronous predictor that does what it is told: one server for many tests."""
# ruff: noqa: T201, BLE001, SIM105 - what it prints is looked at

import collections
import dataclasses
import datetime
import enum
import io
import os
import subprocess
import sys
import tempfile
import time
import warnings
from typing import Any

import cog
import numpy as np
import pydantic
from cog import BaseModel, BaseRunner, Input


class Colour(enum.Enum):
    RED = "red"


class CogModel(BaseModel):
    text: str
    file: cog.Path | None = None


class PydanticModel(pydantic.BaseModel):
    text: str
    number: int


@dataclasses.dataclass
class Plain:
    text: str


Named = collections.namedtuple("Named", "left right")


def _file(content: str, suffix: str = ".txt") -> cog.Path:
    handle, name = tempfile.mkstemp(suffix=suffix)
    os.write(handle, content.encode())
    os.close(handle)
    return cog.Path(name)


def _open(content: str):
    return open(_file(content, ".bin"), "rb")


OUTPUTS = {
    "none": lambda: None,
    "str": lambda: "text",
    "int": lambda: 3,
    "float": lambda: 1.5,
    "bool": lambda: True,
    "list": lambda: [1, 2, 3],
    "empty list": list,
    "nested list": lambda: [[1], [2, 3]],
    "dict": lambda: {"b": 1, "a": {"c": [1]}},
    "tuple": lambda: (1, "two"),
    "set": lambda: {7},
    "generator": lambda: (n for n in range(3)),
    "enum": lambda: Colour.RED,
    "datetime": lambda: datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
    "numpy int": lambda: np.int64(4),
    "numpy float": lambda: np.float32(0.5),
    "numpy array": lambda: np.arange(4).reshape(2, 2),
    "numpy bool": lambda: np.bool_(True),
    "cog model": lambda: CogModel(text="t"),
    "cog model file": lambda: CogModel(text="t", file=_file("inner")),
    "pydantic": lambda: PydanticModel(text="t", number=1),
    "dataclass": lambda: Plain(text="t"),
    "namedtuple": lambda: Named(1, 2),
    "nan": lambda: float("nan"),
    "infinity": lambda: [float("inf")],
    "bytes": lambda: b"raw",
    "object": object,
    "unicode": lambda: "é \u2028 😀 \x00",
    "big int": lambda: 2**70,
    "file": lambda: _file("content"),
    "png": lambda: _file("image", ".png"),
    "unknown file": lambda: _file("content", ".unknownsuffix"),
    "open file": lambda: _open("opened"),
    "bytesio": lambda: io.BytesIO(b"in memory"),
    "stringio": lambda: io.StringIO("text in memory"),
    "files": lambda: [_file("one"), _file("two")],
    "file in dict": lambda: {"file": _file("inner")},
    "missing file": lambda: cog.Path("/nowhere/at/all.txt"),
    "directory": lambda: cog.Path("/tmp"),
}


def note_begun() -> None:
    """Tell the test, by one more letter in a file, that work has begun."""
    with open("begun", "a") as begun:
        begun.write("x")


class Predictor(BaseRunner):
    def setup(self) -> None:
        print("setting up", flush=True)
        print("warming", file=sys.stderr, flush=True)
        time.sleep(0.3)

    def run(
        self,
        action: str = Input(default="echo"),
        text: str = Input(default="hello"),
        seconds: float = Input(default=0.0),
        file: cog.Path | None = Input(default=None),
    ) -> Any:
        return getattr(self, action)(text, seconds, file)

    def echo(self, text, seconds, file):
        return text

    def output(self, text, seconds, file):
        return OUTPUTS[text]()

    def sleep(self, text, seconds, file):
        """In steps that a cancellation can interrupt."""
        print("sleeping", flush=True)
        note_begun()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(0.005)
        return text

    def mark(self, text, seconds, file):
        """As sleep, and leaves a file that says how it ended: `text` is its path."""
        try:
            self.sleep(text, seconds, file)
        except BaseException as error:
            with open(text, "w") as trace:
                trace.write(type(error).__name__)
            print("cleaning up", flush=True)
            raise
        with open(text, "w") as trace:
            trace.write("ended")
        return text

    def swallow(self, text, seconds, file):
        try:
            self.sleep(text, seconds, file)
        except cog.CancelationException:
            pass
        return "swallowed"

    def one_call(self, text, seconds, file):
        note_begun()
        time.sleep(seconds)
        return text

    def fail(self, text, seconds, file):
        print("about to fail", flush=True)
        raise ValueError(text)

    def exit(self, text, seconds, file):
        sys.exit(3)

    def die(self, text, seconds, file):
        print("about to die", flush=True)
        os._exit(7)

    def log(self, text, seconds, file):
        print("one", flush=True)
        print("two", file=sys.stderr, flush=True)
        os.write(1, b"")
        print(text)
        return text

    def print_all(self, text, seconds, file):
        sys.stdout.write(text)
        return text

    def warn(self, text, seconds, file):
        warnings.warn(text, stacklevel=1)
        return text

    def slow_log(self, text, seconds, file):
        for number in range(int(text)):
            print(f"line {number}", flush=True)
            time.sleep(seconds)
        return text

    def child(self, text, seconds, file):
        subprocess.run(["echo", text], check=True)
        os.write(1, f"{text} raw\n".encode())
        return text

    def metrics(self, text, seconds, file):
        self.record_metric("score", 0.5)
        self.record_metric("count", 1)
        self.record_metric("count", 2, mode="incr")
        self.record_metric("steps", 1, mode="append")
        self.record_metric("steps", 2, mode="append")
        self.record_metric("name", "x")
        self.record_metric("flag", True)
        self.record_metric("a.b.c", 1)
        cog.current_scope().metrics["scope"] = 7
        cog.current_scope().record_metric("other", [1, 2])
        self.record_metric("gone", float("nan"))
        return text

    def metric(self, text, seconds, file):
        """Record metrics given as Python text, and return what was raised."""
        raised: list[list[str] | None] = []
        for name, value, *mode in eval(text):
            try:
                self.record_metric(name, value, **({"mode": mode[0]} if mode else {}))
                raised.append(None)
            except Exception as error:
                raised.append([type(error).__name__, str(error)])
        return raised

    def metric_then_fail(self, text, seconds, file):
        self.record_metric("score", 0.5)
        raise ValueError(text)

    def context(self, text, seconds, file):
        return dict(cog.current_scope().context)

    def read(self, text, seconds, file):
        if file is None:
            return None
        if isinstance(file, str) and not os.path.exists(file):
            return {"type": type(file).__name__, "value": str(file)}
        with open(file, "rb") as source:
            content = source.read()
        return {
            "type": type(file).__name__,
            "name": os.path.basename(file),
            "folder": os.path.dirname(file),
            "content": content.decode(errors="replace"),
            "path": str(file),
        }

    def environment(self, text, seconds, file):
        return os.environ.get(text)

    def threads(self, text, seconds, file):
        import threading

        return threading.current_thread() is threading.main_thread()

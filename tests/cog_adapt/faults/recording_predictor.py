"""Predictors that write down what they really run, and break in every way on request.

A server under test imports this file from its own folder; what it writes lies beside it.
"""

import asyncio
import ctypes
import os
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import cog
from cog import BaseRunner, Input


def note(book: str, line: object) -> None:
    """One line at the end of a file, whole even if many processes write."""
    handle = os.open(book, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(handle, f"{line}\n".encode())
    os.close(handle)


def obey(order: str) -> None:
    """As a file says: word and number."""
    word, _, number = (Path(order).read_text() if Path(order).exists() else "").partition(" ")
    if word == "raise":
        raise RuntimeError("no weights")
    if word == "die":
        os._exit(9)
    if word == "sleep":
        time.sleep(float(number))


def set_up() -> None:
    note("setups", os.getpid())
    obey("setup")


obey("import")


class Predictor(BaseRunner):
    failure: str | None = None

    def setup(self) -> None:
        set_up()

    @cog.streaming
    def run(
        self,
        name: str = Input(),
        action: str = Input(default="nothing"),
        seconds: float = Input(default=0.0),
    ) -> Iterator[str]:
        note("begun", name)
        yield name
        getattr(self, action)(seconds)
        note("ended", name)

    def fatal_error(self) -> str | None:
        return self.failure

    def nothing(self, seconds: float) -> None:
        time.sleep(seconds)

    def lose_device(self, seconds: float) -> None:
        self.failure = "the device cuda:0 failed: device-side assert triggered"
        raise RuntimeError(self.failure)

    def gate(self, seconds: float) -> None:
        while not Path("open").exists():
            time.sleep(0.005)

    def segfault(self, seconds: float) -> None:
        ctypes.string_at(0)

    def exit(self, seconds: float) -> None:
        os._exit(3)

    def die_once(self, seconds: float) -> None:
        if not Path("died").exists():
            Path("died").touch()
            os._exit(4)

    def hang(self, seconds: float) -> None:
        """One call into C that keeps the interpreter's lock."""
        time.sleep(0.3)  # so that what it has said is on its way
        ctypes.PyDLL(None).usleep(int(seconds * 1e6))

    def fork(self, seconds: float) -> None:
        child = subprocess.Popen(["sleep", "60"])
        note("children", child.pid)
        self.gate(seconds)

    def fork_and(self, action: str, seconds: float) -> None:
        """A fork that sleeps, with every descriptor of its parent."""
        child = os.fork()
        if child == 0:
            time.sleep(600)
        note("children", child)
        getattr(self, action)(seconds)

    def fork_and_exit(self, seconds: float) -> None:
        self.fork_and("exit", seconds)

    def fork_and_gate(self, seconds: float) -> None:
        self.fork_and("gate", seconds)

    def fork_and_hang(self, seconds: float) -> None:
        self.fork_and("hang", seconds)

    def ignore(self, seconds: float) -> None:
        """Takes no notice of a cancel."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                time.sleep(0.01)
            except BaseException:  # noqa: BLE001 - a rude predictor
                note("ignored", "cancel")

    def shadow(self, seconds: float) -> None:
        """A number and then an object under the same name."""
        self.record_metric("loss", 1)
        self.record_metric("loss.mean", 2)
        self.record_metric("text", "a")
        self.record_metric("text", "b", mode="append")


class Several(BaseRunner):
    def setup(self) -> None:
        set_up()

    @cog.streaming
    async def run(
        self, name: str = Input(), action: str = Input(default="nothing")
    ) -> AsyncIterator[str]:
        note("begun", name)
        yield name
        while action == "gate" and not Path("open").exists():
            await asyncio.sleep(0.005)
        note("ended", name)


def train(name: str = Input(), seconds: float = Input(default=0.0)) -> str:
    """A training whose process breaks as the file `training` says, while it is loaded or runs."""
    note("begun", name)
    word = Path("training").read_text() if Path("training").exists() else ""
    if word == "die":
        os._exit(5)
    time.sleep(seconds)
    return name

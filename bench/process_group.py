"""Runs a command in a process group of its own, which ends with the block that started it."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

_SECONDS = 60.0  # for the group's own end, before it is killed
_PAUSE = 0.05


def end_on_signals() -> None:
    """Let SIGTERM and SIGHUP end this process by `SystemExit`, so that blocks end their groups."""

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, leave)


@contextmanager
def process_group(
    command: str | Sequence[str | Path],
    **options: Any,  # noqa: ANN401 - of `subprocess.Popen`
) -> Iterator[subprocess.Popen[Any]]:
    """Start a command, a string by a shell; at the end of the block end its group, by its id."""
    process = subprocess.Popen(
        command, shell=isinstance(command, str), start_new_session=True, **options
    )
    try:
        yield process
    finally:
        _end(process)


def _end(process: "subprocess.Popen[Any]") -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        deadline = time.monotonic() + _SECONDS
        while time.monotonic() < deadline:
            process.poll()  # a dead leader that nobody waits for keeps its group
            os.killpg(process.pid, 0)
            time.sleep(_PAUSE)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()

"""Locks of files, by which the processes of a host take turns."""

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from cog_adapt.runner.errors import StoreError

_LOOK_SECONDS = 0.005


@contextmanager
def locked_file(path: Path, seconds: float) -> Iterator[None]:
    """Hold the lock of a file, which is made if it does not exist.

    Args:
        path: of the file.
        seconds: for which the lock is waited for at most.

    Raises:
        StoreError: the file cannot be written, or another process holds the lock for longer.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w")
    except OSError as error:
        raise StoreError(
            f"{path.name} cannot be written: {error}. Make the folder of WEIGHTS_DIR writable."
        ) from error
    with file:
        _lock(file, seconds)
        yield  # the lock ends with the file


def _lock(file: IO[str], seconds: float) -> None:
    """Wait for the lock of an open file."""
    end = time.monotonic() + seconds
    while not is_locked_now(file):
        if time.monotonic() > end:
            raise StoreError(
                f"{Path(file.name).name} has been locked by another process for {seconds:g} s. "
                "End that process, or try later."
            )
        time.sleep(_LOOK_SECONDS)


def is_locked_now(file: IO[str]) -> bool:
    """Lock an open file unless another process holds its lock; return whether it is locked."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

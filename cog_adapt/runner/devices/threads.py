"""Chooses the number of torch's threads: the cores, divided among the runners of this host.

Each process that holds a model locks a file of its own for as long as it lives. A process that
starts counts the locked files and keeps its number, because the order of sums depends on it.
"""

import fcntl
import functools
import logging
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import torch

from cog_adapt.machine import cores

_MOST_RUNNERS = 256
logger = logging.getLogger(__name__)


def share_cores(environment: Mapping[str, str] = os.environ, folder: Path | None = None) -> int:
    """Set the number of torch's threads, unless OMP_NUM_THREADS does; return it."""
    runners = _take_place(folder or Path(tempfile.gettempdir()) / f"cog-adapt-{os.getuid()}")
    if environment.get("OMP_NUM_THREADS"):
        return torch.get_num_threads()
    found = cores()
    threads = max(1, found // runners)
    torch.set_num_threads(threads)
    level = logging.WARNING if runners > 1 else logging.INFO
    logger.log(
        level,
        "torch's threads here: %d, of %d cores for %d runners. Set OMP_NUM_THREADS to choose.",
        threads,
        found,
        runners,
    )
    return threads


@functools.cache
def _take_place(folder: Path) -> int:
    """Lock the first free file of the folder until the process ends; return the number locked."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.stat().st_uid != os.getuid():
            return 1
        return _locked(folder)
    except OSError:  # no writable folder: then the processes are not counted
        return 1


def _locked(folder: Path) -> int:
    mine, others = None, 0
    for number in range(_MOST_RUNNERS):
        path = folder / f"runner-{number}"
        if mine is not None and not path.exists():
            break
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        held = _is_held(file)
        others += held
        if held or mine is not None:
            os.close(file)
        else:
            mine = file  # the file stays open, and so locked, until the process ends
    return others + 1


def _is_held(file: int) -> bool:
    """Lock the file; return whether another process holds it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False

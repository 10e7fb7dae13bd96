"""How much memory and disk this process may have, from which budgets are computed."""

import functools
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_OWN_CGROUPS = Path("/proc/self/cgroup")


@functools.cache
def memory_bytes(cgroups: Path = _CGROUPS, own_cgroups: Path = _OWN_CGROUPS) -> int:
    """Return the machine's memory, or the least limit of the cgroups that this process is in.

    Args:
        cgroups: the folder of all cgroups.
        own_cgroups: the file that names those of this process.
    """
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _limit_files(cgroups, own_cgroups):
        try:
            text = path.read_text().strip()
        except OSError:
            continue
        if text.isdecimal():  # `max` means no limit
            limits.append(int(text))
    return min(limits)


def _limit_files(cgroups: Path, own_cgroups: Path) -> Iterator[Path]:
    """Yield the files of cgroup's limits, of either version, those of every level."""
    yield cgroups / "memory" / "memory.limit_in_bytes"
    yield cgroups / "memory.max"
    try:
        lines = own_cgroups.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, _, path = line.split(":", 2)
        own = cgroups / path.lstrip("/")
        yield from (level / "memory.max" for level in (own, *own.parents) if level != cgroups)


def free_disk_bytes(folder: Path) -> int:
    """Return the free space of the disk that a folder lies on, or will."""
    return shutil.disk_usage(_existing(folder)).free


def whole_disk_bytes(folder: Path) -> int:
    """Return the size of the disk that a folder lies on, or will."""
    return shutil.disk_usage(_existing(folder)).total


def _existing(folder: Path) -> Path:
    whole = folder.absolute()
    return next(each for each in (whole, *whole.parents) if each.exists())

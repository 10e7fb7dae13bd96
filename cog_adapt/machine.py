"""How much memory, how many cores and how much disk this process may have."""

import functools
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_OWN_CGROUPS = Path("/proc/self/cgroup")
MEMORY_SHARERS = "MEMORY_SHARERS"  # the variable that a server sets for its model processes
_CORES_QUOTA = _CGROUPS / "cpu.max"


@functools.cache
def memory_bytes(cgroups: Path = _CGROUPS, own_cgroups: Path = _OWN_CGROUPS) -> int:
    """Return the machine's memory, or the least limit of the cgroups that this process is in.

    Of model processes that share it each gets an equal part.

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
    return min(limits) // int(os.environ.get(MEMORY_SHARERS, "1"))


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


def cores(quota: Path = _CORES_QUOTA) -> int:
    """Return the number of cores for this process: by affinity and by the container's quota."""
    allowed = len(os.sched_getaffinity(0))
    try:
        most, period = quota.read_text().split()
        return max(1, min(allowed, int(most) // int(period)))
    except (OSError, ValueError):  # no container, or "max"
        return allowed


def free_disk_bytes(folder: Path) -> int:
    """Return the free space of the disk that a folder lies on, or will."""
    return shutil.disk_usage(_existing(folder)).free


def whole_disk_bytes(folder: Path) -> int:
    """Return the size of the disk that a folder lies on, or will."""
    return shutil.disk_usage(_existing(folder)).total


def _existing(folder: Path) -> Path:
    whole = folder.absolute()
    return next(each for each in (whole, *whole.parents) if each.exists())

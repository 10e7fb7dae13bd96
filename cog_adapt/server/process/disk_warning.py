"""Warns of a budget of disk that is larger than the disk."""

from pathlib import Path

import structlog

from cog_adapt.machine import free_disk_bytes
from cog_adapt.server.settings import Settings

log = structlog.get_logger()


def warn_of_disk(settings: Settings) -> None:
    """Log a warning if DISK_BYTES exceeds what is free beside the files of DATA_DIR."""
    wanted = settings.disk_bytes
    if wanted is None or wanted <= (free := free_disk_bytes(settings.data_dir)):
        return
    room = free + _bytes_in(settings.data_dir)
    if wanted > room:
        log.warning(
            "DISK_BYTES is more than the disk of DATA_DIR has room for: requests will be refused "
            "(507) before a budget is spent. Set DISK_BYTES to less, or DATA_DIR to another disk",
            disk_bytes=wanted,
            room=room,
        )


def _bytes_in(folder: Path) -> int:
    return sum(_size(each) for each in folder.rglob("*"))


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:  # removed meanwhile
        return 0

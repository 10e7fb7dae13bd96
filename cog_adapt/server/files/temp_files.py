"""The temporary files of a worker that was killed before it could remove them."""

import contextlib
import os
import re
import secrets
import shutil
import stat
import tempfile
from pathlib import Path

from cog_adapt.deletion_clock import deletion_time

_SECONDS_A_DAY = 86_400
# a prefix and the random part of mkstemp
_OURS = re.compile(r"tmp[0-9a-f]{8}_[a-z0-9_]{8}.*", re.DOTALL)


def new_prefix() -> str:
    """Make a prefix for a process's file names: like Python's own, with eight random digits."""
    return f"tmp{secrets.token_hex(4)}_"


def folder_prefix(prefix: str) -> str:
    """Return the prefix of folder names that belong to one process's files."""
    return f"{prefix}front_"


def remove_temp_files(prefix: str) -> None:
    """Remove the files with this prefix, and the front's folders."""
    for path in Path(tempfile.gettempdir()).glob(f"{folder_prefix(prefix)}*"):
        shutil.rmtree(path, ignore_errors=True)
    for path in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def remove_old_temp_files(days: float) -> int:
    """Remove the files of killed servers in the folder of temporary files.

    Only files of this user with a prefix of `new_prefix` are considered.

    Args:
        days: since a file was last written to.

    Returns:
        the number of files removed.
    """
    before = deletion_time() - days * _SECONDS_A_DAY
    left = [
        Path(entry.path)
        for entry in os.scandir(tempfile.gettempdir())
        if _OURS.fullmatch(entry.name) and _is_left(entry, before)
    ]
    for path in left:
        with contextlib.suppress(OSError):
            path.unlink()
    return len(left)


def _is_left(entry: "os.DirEntry[str]", before: float) -> bool:
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:  # it was removed meanwhile
        return False
    is_own_file = stat.S_ISREG(status.st_mode) and status.st_uid == os.getuid()
    return is_own_file and status.st_mtime < before

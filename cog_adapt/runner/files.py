"""Writes files atomically."""

import os
import threading
from pathlib import Path

from cog_adapt.runner.errors import StoreError


def write_whole(path: Path, content: bytes) -> None:
    """Write a file atomically: a reader finds all of it or nothing.

    Raises:
        StoreError: the disk is full or not writable.
    """
    draft = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with draft.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        raise StoreError(
            f"{path.name} ({len(content):,} bytes) could not be written: {error}. Free space in "
            "the folder of WEIGHTS_DIR, or name another."
        ) from error
    finally:
        _remove(draft)


def _remove(draft: Path) -> None:
    try:
        draft.unlink(missing_ok=True)
    except OSError:
        return  # the folder itself is gone or read-only: the first error says so

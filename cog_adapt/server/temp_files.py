"""The temporary files of a worker that was killed before it could remove them."""

import contextlib
import secrets
import tempfile
from pathlib import Path


def new_prefix() -> str:
    """Make the beginning of a process's file names: as Python's own, with eight random digits."""
    return f"tmp{secrets.token_hex(4)}_"


def remove_temp_files(prefix: str) -> None:
    """Remove the files whose names begin so."""
    for path in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)

"""The temporary files of a model process that was killed before it could remove them."""

import contextlib
import secrets
import tempfile
from pathlib import Path


def new_mark() -> str:
    """How the names of one process's files begin: as Python's own, and with eight random digits."""
    return f"tmp{secrets.token_hex(4)}_"


def remove_leftovers(mark: str) -> None:
    """Remove the files whose names begin so."""
    for path in Path(tempfile.gettempdir()).glob(f"{mark}*"):
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)

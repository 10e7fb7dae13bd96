"""The temporary files of a worker that was killed before it could remove them."""

import contextlib
import secrets
import shutil
import tempfile
from pathlib import Path


def new_prefix() -> str:
    """How the names of one process's files begin: as Python's own, and with eight random digits."""
    return f"tmp{secrets.token_hex(4)}_"


def folder_prefix(prefix: str) -> str:
    """How the names of folders begin that go with one process's files; its own folders stay."""
    return f"{prefix}front_"


def remove_temp_files(prefix: str) -> None:
    """Remove the files whose names begin so, and the front's folders."""
    for path in Path(tempfile.gettempdir()).glob(f"{folder_prefix(prefix)}*"):
        shutil.rmtree(path, ignore_errors=True)
    for path in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)

"""Files: written whole or not at all, read up to a limit."""

import os
import stat
import threading
from pathlib import Path

from cog_adapt.runner.errors import InputError, StoreError

ZIP_MARK = b"PK\x03\x04"


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


def read_bytes(path: Path, max_bytes: int, what: str) -> bytes:
    """Read a file whole.

    Raises:
        InputError: it is missing, unreadable, no regular file, or too big.
    """
    try:
        content = _first_bytes(path, max_bytes + 1)
    except (OSError, ValueError) as cause:
        raise InputError(f"{what} cannot be read ({cause}). Send it again.") from cause
    if len(content) > max_bytes:
        raise InputError(f"{what} has more than {max_bytes:,} bytes. Send a smaller one.")
    return content


def read_text(path: Path, max_bytes: int) -> str:
    """Read a UTF-8 file; a byte order mark stays in the text.

    Raises:
        InputError: the file is missing, unreadable, no regular file, too big or not UTF-8.
    """
    try:
        content = _first_bytes(path, max_bytes + 1)
    except (OSError, ValueError) as cause:
        raise InputError(f"it cannot be read ({cause}): give a file of examples") from cause
    if len(content) > max_bytes:
        raise InputError(f"it is bigger than {max_bytes} bytes: give fewer or shorter examples")
    return utf8(content)


def read_text_or_zip(path: Path, max_bytes: int) -> str | bytes:
    """Read a UTF-8 file as its text, a ZIP file as its bytes; raises as `read_text` does."""
    return read_bytes(path, max_bytes, "it") if _is_zip(path) else read_text(path, max_bytes)


def _is_zip(path: Path) -> bool:
    """Return whether a file begins like a ZIP file; False if it cannot be read."""
    try:
        return _first_bytes(path, len(ZIP_MARK)) == ZIP_MARK
    except (OSError, ValueError):
        return False


def _first_bytes(path: Path, count: int) -> bytes:
    # Opening a pipe would wait for a writer that may never come.
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError("a folder, pipe or device, no regular file")
    with path.open("rb") as file:
        return file.read(count)


def utf8(content: bytes) -> str:
    """Decode UTF-8 bytes; invalid bytes are an InputError with offset and line."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as cause:
        line = content.count(b"\n", 0, cause.start) + 1
        raise InputError(
            f"it is not UTF-8: byte 0x{content[cause.start]:02x} at offset {cause.start} "
            f"(line {line}): save the file as UTF-8"
        ) from cause


def _remove(draft: Path) -> None:
    try:
        draft.unlink(missing_ok=True)
    except OSError:
        return  # the folder itself is gone or read-only: the first error says so

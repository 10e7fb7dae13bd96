"""Rows from a ZIP file: a folder for each target, with the files that are its inputs.

Whoever sends it is trusted with nothing: members are counted before the directory is read, and
nothing is written to a disk, so a name is a label at most. This module knows no picture and no
sound; `Task.example` gets the bytes of each member.
"""

import io
import stat
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import PurePosixPath

from cog_adapt.runner.data.row import INPUT_NAMES, TARGET_NAMES, Fault, Row, Rows
from cog_adapt.runner.errors import InputError

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".wav")
MOST_FILE_BYTES, MOST_BYTES = 16 * 2**20, 128 * 2**20
MOST_RATIO = 100  # pictures and sounds hardly shrink; what does has been made to
_ENTRY = b"PK\x01\x02"
_WANTED = f"a folder for each target, in it files of {', '.join(SUFFIXES)}"


def zip_rows(content: bytes, most_rows: int) -> Rows:
    """Return a row for each member that is wanted; others are left out.

    Args:
        content: of the ZIP file.
        most_rows: members that it may have.

    Raises:
        InputError: it is broken, has too many members, or they have too many bytes.
    """
    if content.count(_ENTRY) > most_rows:
        raise InputError(f"the ZIP file has more than {most_rows:,} members. Send fewer.")
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
        members = [member for member in archive.infolist() if _is_wanted(member)]
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise InputError(f"the ZIP file cannot be read: {error}. Make it anew.") from error
    total = sum(member.file_size for member in members)
    if total > MOST_BYTES:
        raise InputError(f"the ZIP file holds {total:,} bytes; the limit is {MOST_BYTES:,}.")
    if not members:
        raise InputError(f"the ZIP file has no files of examples. Give {_WANTED}.")
    return Rows(_rows(archive, members), "a row is a member of the ZIP file")


def _is_wanted(member: zipfile.ZipInfo) -> bool:
    """Leave out folders, links, hidden files and those of another kind."""
    path = PurePosixPath(member.filename)
    mode = member.external_attr >> 16
    is_file = not member.is_dir() and (not stat.S_IFMT(mode) or stat.S_ISREG(mode))
    is_hidden = any(part.startswith((".", "__")) and part != ".." for part in path.parts)
    return is_file and not is_hidden and path.suffix.lower() in SUFFIXES


def _rows(archive: zipfile.ZipFile, members: list[zipfile.ZipInfo]) -> Iterator[Row | Fault]:
    for member in members:
        problem = _problem_of(member)
        if problem:
            yield Fault(repr(member.filename[:80]), problem)
            continue
        try:
            content = archive.read(member)
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
            yield Fault(repr(member.filename[:80]), f"it cannot be read: {error}. Make it anew")
            continue
        label = PurePosixPath(member.filename).parent.name
        yield Row(repr(member.filename[:80]), {INPUT_NAMES[0]: content, TARGET_NAMES[0]: label})


def _problem_of(member: zipfile.ZipInfo) -> str:
    """Return why a member cannot be taken; empty where it can."""
    path = PurePosixPath(member.filename)
    if path.is_absolute() or ".." in path.parts or "\\" in member.filename:
        return "its name leads out of the file. Name it FOLDER/FILE"
    if not path.parent.name:
        return f"it lies in no folder. Give {_WANTED}"
    if member.flag_bits & 1:
        return "it is encrypted. Send it without a password"
    if member.file_size > MOST_FILE_BYTES:
        return f"it has {member.file_size:,} bytes; the limit is {MOST_FILE_BYTES:,}. Shrink it"
    if member.file_size > MOST_RATIO * max(1, member.compress_size):
        return f"it is more than {MOST_RATIO} times as long as in the ZIP file. Send what is real"
    return ""

"""Rows from a ZIP file: a folder for each target, with the files that are its inputs.

Nothing is written to a disk, so a name is a label at most. This module knows no picture and no
sound; `Task.example` gets the bytes of each member.
"""

import io
import stat
import zipfile
from collections.abc import Iterator
from pathlib import PurePosixPath

from cog_adapt.runner.data.row import INPUT_NAMES, TARGET_NAMES, Fault, Row, Rows
from cog_adapt.runner.data.zip_files import ZipBounds, ZipContent
from cog_adapt.runner.errors import InputError

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".wav")
MOST_FILE_BYTES, MOST_BYTES = 16 * 2**20, 128 * 2**20
MOST_RATIO = 100  # pictures and sounds hardly shrink; a file with a higher ratio was made to
_WANTED = f"a folder for each target, in it files of {', '.join(SUFFIXES)}"


def zip_rows(content: bytes, most_rows: int) -> Rows:
    """Return a row for each wanted member.

    Args:
        content: of the ZIP file.
        most_rows: members that it may have.

    Raises:
        InputError: it is broken, has too many members, or they have too many bytes.
    """
    bounds = ZipBounds(
        members=most_rows, member_bytes=MOST_FILE_BYTES, total_bytes=MOST_BYTES, ratio=MOST_RATIO
    )
    archive = ZipContent(io.BytesIO(content), bounds, _is_wanted)
    if not archive.members:
        raise InputError(f"the ZIP file has no files of examples. Give {_WANTED}.")
    return Rows(_rows(archive), "a row is a member of the ZIP file")


def _is_wanted(member: zipfile.ZipInfo) -> bool:
    """Return False for folders, links, hidden files and other kinds of members."""
    path = PurePosixPath(member.filename)
    mode = member.external_attr >> 16
    is_file = not member.is_dir() and (not stat.S_IFMT(mode) or stat.S_ISREG(mode))
    is_hidden = any(part.startswith((".", "__")) and part != ".." for part in path.parts)
    return is_file and not is_hidden and path.suffix.lower() in SUFFIXES


def _rows(archive: ZipContent) -> Iterator[Row | Fault]:
    for member in archive.members:
        place = repr(member.filename[:80])
        problem = _problem_of(member.filename)
        if problem:
            yield Fault(place, problem)
            continue
        try:
            content = archive.read(member)
        except InputError as error:
            yield Fault(place, str(error), error)
            continue
        label = PurePosixPath(member.filename).parent.name
        yield Row(place, {INPUT_NAMES[0]: content, TARGET_NAMES[0]: label})


def _problem_of(name: str) -> str:
    """Return the reason to refuse a member's name; empty if there is none."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name:
        return "its name leads out of the file. Name it FOLDER/FILE"
    if not path.parent.name:
        return f"it lies in no folder. Give {_WANTED}"
    return ""

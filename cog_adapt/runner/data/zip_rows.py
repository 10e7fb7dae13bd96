"""Rows from a ZIP file: a folder for each target, with the files that are its inputs.

A file in no folder has no target, but a name, and a caption where a `.txt` of this name lies beside
it: a task whose pictures have captions reads these columns in `Task.example`. Nothing is written to
a disk, so a name is a label at most. This module knows no picture and no sound; `Task.example` gets
the bytes of each member.
"""

import io
import stat
import zipfile
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from cog_adapt.runner.data.row import INPUT_NAMES, TARGET_NAMES, Fault, FlatRow, Row, Rows
from cog_adapt.runner.data.zip_files import ZipBounds, ZipContent
from cog_adapt.runner.errors import InputError

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".wav")
MOST_FILE_BYTES, MOST_BYTES = 16 * 2**20, 128 * 2**20
MOST_RATIO = 100  # pictures and sounds hardly shrink; a file with a higher ratio was made to
MOST_CAPTION_BYTES = 65_536
_CAPTION = ".txt"
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
    if all(member.filename.lower().endswith(_CAPTION) for member in archive.members):
        raise InputError(f"the ZIP file has no files of examples. Give {_WANTED}.")
    return Rows(_rows(archive), "a row is a member of the ZIP file")


def _is_wanted(member: zipfile.ZipInfo) -> bool:
    """Return False for folders, links, hidden files and other kinds of members."""
    path = PurePosixPath(member.filename)
    mode = member.external_attr >> 16
    is_file = not member.is_dir() and (not stat.S_IFMT(mode) or stat.S_ISREG(mode))
    is_hidden = any(part.startswith((".", "__")) and part != ".." for part in path.parts)
    is_caption = len(path.parts) == 1 and path.suffix.lower() == _CAPTION
    return is_file and not is_hidden and (path.suffix.lower() in SUFFIXES or is_caption)


def _rows(archive: ZipContent) -> Iterator[Row | Fault]:
    names = {PurePosixPath(member.filename): member for member in archive.members}
    captions = {path.stem: m for path, m in names.items() if path.suffix.lower() == _CAPTION}
    for member in archive.members:
        path, place = PurePosixPath(member.filename), repr(member.filename[:80])
        if path.suffix.lower() == _CAPTION:
            continue
        if path.is_absolute() or ".." in path.parts or "\\" in member.filename:
            yield Fault(place, "its name leads out of the file. Name it FOLDER/FILE")
            continue
        try:
            yield _row(archive, member, captions.get(path.stem))
        except InputError as error:
            yield Fault(place, str(error), error)


def _row(archive: ZipContent, member: zipfile.ZipInfo, caption: zipfile.ZipInfo | None) -> Row:
    path, place = PurePosixPath(member.filename), repr(member.filename[:80])
    values = {INPUT_NAMES[0]: archive.read(member)}
    if path.parent.name:
        return Row(place, {**values, TARGET_NAMES[0]: path.parent.name})
    return FlatRow(place, {**values, "name": path.stem, **_caption(archive, caption)})


def _caption(archive: ZipContent, member: zipfile.ZipInfo | None) -> dict[str, Any]:
    if member is None:
        return {}
    name = repr(member.filename[:80])
    if member.file_size > MOST_CAPTION_BYTES:
        raise InputError(
            f"its caption {name} has {member.file_size:,} bytes; the limit is "
            f"{MOST_CAPTION_BYTES:,}. Shorten it."
        )
    try:
        return {"caption": archive.read(member).decode("utf-8-sig").strip()}
    except UnicodeDecodeError as error:
        raise InputError(f"its caption {name} is no UTF-8 ({error}). Save it as UTF-8.") from error

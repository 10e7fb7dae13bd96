"""ZIP files from callers: each bounded before it is unpacked, and unpacked in steps.

The sender is not trusted. The directory is counted before it is read. Members are stored or
deflated: `zipfile` unpacks bzip2 and LZMA whole, whatever size they declare, so that 12 kB become
gigabytes. No two members may share bytes, so the bound on each member's ratio holds for the whole
file. Nothing is written to a disk. This module does not know the purpose of members.
"""

import io
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import IO

from cog_adapt.runner.errors import InputError

_METHODS = {zipfile.ZIP_STORED: "stored", zipfile.ZIP_DEFLATED: "deflate"}
_FOREIGN = {9: "deflate64", zipfile.ZIP_BZIP2: "bzip2", zipfile.ZIP_LZMA: "LZMA", 93: "zstd"}
_ENCRYPTED = 0x1 | 0x40
_STEP = 2**18  # bytes unpacked at once; for so few bytes the ratio says nothing
_END = struct.Struct("<4s4H2LH")
_END_MARK, _ENTRY_MARK, _LOCATOR_MARK = b"PK\x05\x06", b"PK\x01\x02", b"PK\x06\x07"
_LOCATOR_BYTES, _MOST_COMMENT, _HEADER_BYTES = 20, 2**16, 30
_MOST_ENTRY_BYTES = 1024  # bytes of the directory for each member allowed
_SHOWN = 80
_BROKEN = (zipfile.BadZipFile, zlib.error, struct.error, OSError, EOFError, RuntimeError)
_ALL_BROKEN = (*_BROKEN, ValueError, OverflowError)


@dataclass(frozen=True)
class ZipBounds:
    """The most that a ZIP file may hold.

    Attributes:
        members: in its directory, wanted or not.
        member_bytes: of a wanted member, unpacked.
        total_bytes: of all wanted members, unpacked.
        ratio: of a member's bytes, unpacked to packed, if there are more than 262,144.
    """

    members: int
    member_bytes: int
    total_bytes: int
    ratio: int


class ZipContent:
    """The wanted members of a ZIP file; `read` unpacks one.

    Args:
        file: open for reading, and for seeking.
        bounds: of what it may hold.
        wanted: selects the members that will be read.

    Attributes:
        members: the wanted members, in the order of the file's directory.

    Raises:
        InputError: it is broken, breaks a bound, or has members that overlap or share a name.
    """

    def __init__(
        self, file: IO[bytes], bounds: ZipBounds, wanted: Callable[[zipfile.ZipInfo], bool]
    ) -> None:
        self._bounds = bounds
        try:
            count, start = _checked_directory(file, bounds.members)
            self._archive = zipfile.ZipFile(file)
            infos = self._archive.infolist()
        except InputError:
            raise
        except _ALL_BROKEN as error:
            raise _broken(f"{error!s:.{_SHOWN}}") from error
        if len(infos) != count:
            raise _broken(f"it declares {count:,} members, but lists {len(infos):,}")
        _check_apart(infos, start)
        self.members = [info for info in infos if wanted(info)]
        total = sum(info.file_size for info in self.members)
        if total > bounds.total_bytes:
            raise InputError(
                f"the ZIP file holds {total:,} bytes; the limit is {bounds.total_bytes:,}. Send "
                "fewer or smaller files."
            )

    def read(self, member: zipfile.ZipInfo) -> bytes:
        """Unpack a member.

        Raises:
            InputError: it breaks a bound, is packed another way, encrypted, or broken.
        """
        self._check(member)
        try:
            with self._archive.open(member) as file:
                content = _unpacked(file, member.file_size)
        except _ALL_BROKEN as error:
            raise InputError(f"it cannot be read: {error!s:.{_SHOWN}}. Create it again.") from error
        if len(content) != member.file_size:
            raise InputError(
                f"it cannot be read: it declares {member.file_size:,} bytes, and has "
                f"{len(content):,}. Create it again."
            )
        return content

    def _check(self, member: zipfile.ZipInfo) -> None:
        size, most, ratio = member.file_size, self._bounds.member_bytes, self._bounds.ratio
        if member.flag_bits & _ENCRYPTED:
            raise InputError("it is encrypted. Send it without a password.")
        if member.compress_type not in _METHODS:
            method = _FOREIGN.get(member.compress_type, f"method {member.compress_type}")
            allowed = " and ".join(_METHODS.values())
            raise InputError(f"it is packed by {method}; {allowed} are read. Pack it again.")
        if size > most:
            raise InputError(f"it has {size:,} bytes; the limit is {most:,}. Shrink it.")
        if size > max(_STEP, ratio * member.compress_size):
            raise InputError(
                f"it unpacks to more than {ratio} times its size in the ZIP file. Send a genuine "
                "file."
            )


def _unpacked(file: IO[bytes], most: int) -> bytes:
    """Unpack in steps, and stop at the step that exceeds the declared bytes."""
    parts, size = list[bytes](), 0
    while size <= most and (part := file.read(_STEP)):
        parts.append(part)
        size += len(part)
    return b"".join(parts)


def _checked_directory(file: IO[bytes], most: int) -> tuple[int, int]:
    """Return the number of members that the directory declares, and its offset in the file.

    `zipfile` would make an object of each entry, however many there are.
    """
    size = file.seek(0, io.SEEK_END)
    begin = max(0, size - _MOST_COMMENT - _END.size - _LOCATOR_BYTES)
    file.seek(begin)
    tail = file.read()
    place = tail.rfind(_END_MARK)
    if place < 0 or len(tail) - place < _END.size:
        raise _broken("its end is missing")
    if tail[max(0, place - _LOCATOR_BYTES) :].startswith(_LOCATOR_MARK):
        raise InputError(
            "the ZIP file has the ZIP64 format, for more than 4 GB. Pack it without ZIP64."
        )
    count, length = _END.unpack_from(tail, place)[4:6]
    start = begin + place - length
    if start < 0 or length > most * _MOST_ENTRY_BYTES:
        raise _broken(f"its directory has {length:,} bytes")
    file.seek(start)
    if max(count, file.read(length).count(_ENTRY_MARK)) > most:
        raise InputError(f"the ZIP file has more than {most:,} members. Send fewer.")
    return count, start


def _check_apart(infos: Iterable[zipfile.ZipInfo], end: int) -> None:
    """Refuse members that share a name or bytes: bytes sent once are unpacked once."""
    names = Counter(info.filename for info in infos)
    double = next((name for name, count in names.items() if count > 1), None)
    if double is not None:
        raise InputError(f"the ZIP file has two members named {double[:_SHOWN]!r}. Keep one.")
    places = [(each.header_offset, each.compress_size + _HEADER_BYTES) for each in infos]
    for (start, length), (following, _) in pairwise([*sorted(places), (end, 0)]):
        if start < 0 or start + length > following:
            raise _broken("members of it overlap")


def _broken(why: str) -> InputError:
    return InputError(f"the ZIP file cannot be read: {why}. Create it again.")

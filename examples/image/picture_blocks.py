"""Counts the blocks of a picture file, since each block costs its reader time.

Blocks are the chunks of a PNG or a WebP, a JPEG's segments and a GIF's parts before its first
frame. A file of 16 MiB may hold four million, and a JPEG of 140 kB can have each pixel refined by a
thousand scans. EXIF of a JPEG has 64 KiB in one segment; Pillow joins more, and reads each entry.
"""

import re
import struct
from collections.abc import Iterator

from cog_adapt import InputError

MOST_BLOCKS, MOST_SCANS, MOST_EXIF = 10_000, 100, 2
_PNG, _JPEG, _GIF, _WEBP = b"\x89PNG\r\n\x1a\n", b"\xff\xd8", b"GIF8", b"RIFF"
_MARK = re.compile(rb"\xff[^\x00\xd0-\xd7]")  # in a scan: what is neither data nor a restart
_WINDOW = 65_536  # bytes that are searched before another thread may run
_SCAN, _END, _EXIF = 0xDA, 0xD9, 0xE1
_ALONE = {0x01, *range(0xD0, 0xD9), _END, 0xFF}  # marks of JPEG without a length; 255 fills


def check_blocks(content: bytes) -> None:
    """Refuse a picture with more blocks, or a JPEG with more scans, than real pictures have.

    Raises:
        InputError: the picture has more; a broken file is left to its decoder.
    """
    try:
        if content.startswith(_PNG):
            _limit(_png_chunks(content))
        elif content.startswith(_JPEG):
            _limit(_jpeg_marks(content))
        elif content.startswith(_GIF):
            _limit(_gif_parts(content))
        elif content.startswith(_WEBP):
            _limit(_webp_chunks(content))
    except (struct.error, IndexError):
        return  # it ends before its end


def _limit(marks: Iterator[int]) -> None:
    """Stop if there are too many."""
    scans = exif = 0
    for number, mark in enumerate(marks, 1):
        scans += mark == _SCAN
        exif += mark == _EXIF
        if number > MOST_BLOCKS:
            raise InputError(
                f"a picture has more than {MOST_BLOCKS:,} blocks (chunks, segments, bytes between "
                "them). Save it anew without what is not its pixels."
            )
        if scans > MOST_SCANS:
            raise InputError(
                f"a JPEG has more than {MOST_SCANS} scans. Save it as a baseline JPEG, of one."
            )
        if exif > MOST_EXIF:
            raise InputError(
                f"a JPEG has more than {MOST_EXIF} segments of EXIF. Save it anew without EXIF."
            )


def _png_chunks(content: bytes) -> Iterator[int]:
    place, name, has_pixels = len(_PNG), b"", False
    while not (name == b"IEND" and has_pixels):
        length, name = struct.unpack_from(">I4s", content, place)
        has_pixels |= name == b"IDAT"
        yield 0
        place += 12 + length


def _webp_chunks(content: bytes) -> Iterator[int]:
    place, end = 12, 8 + struct.unpack_from("<I", content, 4)[0]
    while place < end:
        (length,) = struct.unpack_from("<I", content, place + 4)
        yield 0
        place += 8 + length + length % 2


def _jpeg_marks(content: bytes) -> Iterator[int]:
    """Yield the marks outside the scans' data; fill bytes are marks of their own."""
    place, has_scan = 2, False
    while True:
        begin, mark = struct.unpack_from(">BB", content, place)
        if begin != 0xFF:  # readers of scans look for the next mark
            place = _next_mark(content, place)
            continue
        if mark == _END and has_scan:
            return
        is_other_app1 = mark == _EXIF and content[place + 4 : place + 8] != b"Exif"
        yield 0 if is_other_app1 else mark
        if mark in _ALONE:
            place += 1 if mark == 0xFF else 2
        else:
            place += 2 + struct.unpack_from(">H", content, place + 2)[0]
        if mark == _SCAN:
            place, has_scan = _next_mark(content, place), True


def _next_mark(content: bytes, place: int) -> int:
    """Return the place of the first mark after data."""
    while place < len(content):
        if found := _MARK.search(content, place, place + _WINDOW + 1):
            return found.start()
        place += _WINDOW
    return place


def _gif_parts(content: bytes) -> Iterator[int]:
    flags = content[10]
    place = 13 + (3 * 2 ** (1 + (flags & 7)) if flags & 128 else 0)
    while content[place : place + 1] not in (b"", b",", b";"):
        yield 0
        if content[place] != ord("!"):
            place += 1
            continue
        place += 2
        while content[place]:
            yield 0
            place += 1 + content[place]
        place += 1

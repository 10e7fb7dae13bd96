"""Counts a picture's pixels from its header: PNG, JPEG, WebP, GIF, BMP and TIFF.

Nothing is decoded, and no picture library is needed. This module knows no task.
"""

import io
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import pybase64

# The first characters of PNG, JPEG, GIF, WebP and TIFF; BMP's two letters may begin a text
_BASE64 = ("iVBORw0KGgo", "/9j/", "R0lGOD", "UklGR", "SUkqA", "TU0AK")
_BMP_HEADERS = (12, 40, 52, 56, 64, 108, 124)
_MARK_BYTES = 12
# Markers of JPEG that precede a picture's size and have no length
_ALONE = {0x01, *range(0xD0, 0xD9)}
_SIZES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
_WIDTH, _HEIGHT, _SHORT = 256, 257, 3  # tags and a type of TIFF
_MOST_MARKS = 10_000


def pixel_count(value: object) -> int:
    """Count the pixels of a picture, or of all pictures in lists and objects.

    A picture is a file, its bytes, base64 or a data URI. Other and broken values have no pixels.
    """
    total, left = 0, [value]
    while left:
        part = left.pop()
        if isinstance(part, Mapping):
            left += part.values()
        elif isinstance(part, list | tuple):
            left += part
        else:
            total += _pixels(part)
    return total


def _pixels(value: object) -> int:
    try:
        file = _file(value)
        if file is None:
            return 0
        with file:
            width, height = _size(file)
    except (OSError, ValueError, struct.error):
        return 0
    return abs(width * height)


def _file(value: object) -> BinaryIO | None:
    """Open a value that may be a picture."""
    if isinstance(value, Path):
        return value.open("rb") if value.is_file() else None
    if isinstance(value, bytes | bytearray | memoryview):
        return io.BytesIO(value)
    if not isinstance(value, str):
        return None
    if value[:5].lower() == "data:":
        value = value.partition(",")[2]
    if not value.lstrip().startswith(_BASE64):
        return None
    return io.BytesIO(pybase64.b64decode(value + "=="))  # usual decoders add the missing padding


def _size(file: BinaryIO) -> tuple[int, int]:
    """Read width and height."""
    mark = file.read(_MARK_BYTES)
    for begin, read in _READERS.items():
        if mark.startswith(begin):
            return read(file)
    return 0, 0


def _numbers(file: BinaryIO, place: int, form: str) -> tuple[Any, ...]:
    file.seek(place)
    return struct.unpack(form, file.read(struct.calcsize(form)))


def _png(file: BinaryIO) -> tuple[int, int]:
    width, height = _numbers(file, 16, ">II")
    return width, height


def _gif(file: BinaryIO) -> tuple[int, int]:
    width, height = _numbers(file, 6, "<HH")
    return width, height


def _bmp(file: BinaryIO) -> tuple[int, int]:
    (header,) = _numbers(file, 14, "<I")
    if header not in _BMP_HEADERS:
        return 0, 0
    width, height = _numbers(file, 18, "<HH" if header == 12 else "<ii")
    return width, height


def _webp(file: BinaryIO) -> tuple[int, int]:
    kind = _numbers(file, 12, "4s")[0]
    if kind == b"VP8X":
        low_w, high_w, low_h, high_h = _numbers(file, 24, "<HBHB")
        return 1 + low_w + (high_w << 16), 1 + low_h + (high_h << 16)
    if kind == b"VP8L":
        (bits,) = _numbers(file, 21, "<I")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    width, height = _numbers(file, 26, "<HH")
    return width & 0x3FFF, height & 0x3FFF


def _jpeg(file: BinaryIO) -> tuple[int, int]:
    """Follow the markers to the one with the size."""
    place = 2
    for _ in range(_MOST_MARKS):
        begin, mark = _numbers(file, place, ">BB")
        if begin != 0xFF:
            return 0, 0
        if mark in _SIZES:
            height, width = _numbers(file, place + 5, ">HH")
            return width, height
        if mark == 0xFF:  # a fill byte
            place += 1
        else:
            place += 2 if mark in _ALONE else 2 + _numbers(file, place + 2, ">H")[0]
    return 0, 0


def _tiff(file: BinaryIO) -> tuple[int, int]:
    order = "<" if _numbers(file, 0, "2s")[0] == b"II" else ">"
    (place,) = _numbers(file, 4, order + "I")
    (count,) = _numbers(file, place, order + "H")
    found: dict[int, int] = {}
    for number in range(count):
        at = place + 2 + 12 * number
        tag, kind = _numbers(file, at, order + "HH")
        if tag in (_WIDTH, _HEIGHT):
            (found[tag],) = _numbers(file, at + 8, order + ("H" if kind == _SHORT else "I"))
    return found.get(_WIDTH, 0), found.get(_HEIGHT, 0)


_READERS: dict[bytes, Callable[[BinaryIO], tuple[int, int]]] = {
    b"\x89PNG\r\n\x1a\n": _png,
    b"\xff\xd8": _jpeg,
    b"GIF8": _gif,
    b"BM": _bmp,
    b"RIFF": _webp,
    b"II*\0": _tiff,
    b"MM\0*": _tiff,
}

"""Reads picture files within bounds: of bytes before reading, of pixels before decoding."""

import io
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pybase64
from PIL import Image, ImageFile, ImageOps, UnidentifiedImageError

from cog_adapt import InputError
from examples.image.picture_blocks import check_blocks

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
MOST_BYTES, MOST_PIXELS = 16 * 2**20, 40_000_000
# Of a longer row, all that came is copied with each block, and to narrow one of five million pixels
# takes 0.3 s in one call.
MOST_SIDE = 65_535
MOST_WEBP_PIXELS = 16_000_000  # all of a WebP is decoded in one call
SIDE = 224
# Of a larger file, these are decoded and checked first: most hostile files are refused by them. A
# copy of 22 MB of base64, or a call that decodes it, keeps the model thread waiting for 10 ms.
_HEAD_BYTES = 3 * 2**16
_QUICK_BYTES, _QUICK_PIXELS = 2**18, 1_000_000  # what is decoded within about 20 ms
# One call decodes a block, and converts and narrows some rows: at most 20 ms. A block of the usual
# 65,536 bytes may be 60 megapixels: 0.2 s.
_BLOCK, _PIXELS_OF_A_CALL = 2_048, 1_000_000
_BROKEN = (
    *(OSError, ValueError, SyntaxError, EOFError, LookupError, TypeError, OverflowError),
    *(struct.error, zlib.error, Image.DecompressionBombError),
    Warning,  # as where a filter of warnings makes errors of Pillow's
)
_ALLOWED = (
    f"Send a {', '.join(FORMATS[:-1])} or {FORMATS[-1]} file: as a file, in base64 or as a data URI"
)


def file_of(given: object) -> bytes:
    """Return the bytes of a picture that came as a file, its bytes, base64 or a data URI.

    Raises:
        InputError: the value is none of these, or has too many bytes.
    """
    if isinstance(given, Path):
        with given.open("rb") as file:
            _check_head(file.read(_HEAD_BYTES))
            file.seek(0)
            content = file.read(MOST_BYTES + 1)
    else:
        content = given if isinstance(given, bytes) else _decoded(given)
    _check_bytes(len(content))
    return content


def _decoded(given: object) -> bytes:
    if not isinstance(given, str):
        raise InputError(f"{str(given)[:40]} ({type(given).__name__}) is no picture. {_ALLOWED}.")
    start = given.find(",") + 1
    if given[:4].lower() == "http":
        raise InputError(
            f"a row holds the URL {given[:80]!r}, and what stands in a row is not fetched. Send "
            "`examples_file` (a URL will do): a ZIP with a folder of pictures for each label; or "
            "put the picture into the row, in base64 or as a data URI."
        )
    if given[:5] == "data:" and not given.endswith(";base64,", 0, start):
        shown = given[: min(80, start - 1 if start else 80)]
        raise InputError(f"{shown!r} is no data URI in base64. {_ALLOWED}.")
    _check_bytes((len(given) - start) // 4 * 3 - 2)  # without padding
    try:
        end = start + _HEAD_BYTES // 3 * 4
        if end < len(given):
            _check_head(pybase64.b64decode(given[start:end], validate=True))
        return pybase64.b64decode(given[start:], validate=True)
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"{given[:40]!r} is no picture: {error}. {_ALLOWED}.") from error


def _check_bytes(size: int) -> None:
    if size > MOST_BYTES:
        raise InputError(f"a picture has more than {MOST_BYTES:,} bytes. Send a smaller one.")


def _check_head(head: bytes) -> None:
    """Refuse a file by its first bytes, if they show more blocks or pixels than are taken."""
    check_blocks(head)
    picture = None
    with suppress(*_BROKEN):  # as where the decoder needs the rest
        picture = Image.open(io.BytesIO(head), formats=FORMATS)
    if picture is not None:
        with picture:
            _check_size(picture)


def pixels_of(content: bytes) -> np.ndarray:
    """Return a picture's pixels as the model sees them, (224, 224, 3) of 0 to 255.

    Raises:
        InputError: the bytes are no picture, are broken, or have too many pixels.
    """
    with opened(content) as picture:
        picture.draft("RGB", (2 * SIDE, 2 * SIDE))  # a JPEG is decoded no larger than needed
        picture.decodermaxblock = _BLOCK
        picture.load()
        # As of every picture, the colours are taken: Pillow warns of a palette's that are half seen
        picture.info.pop("transparency", None)
        return np.asarray(_resized(picture))


def _resized(picture: Image.Image) -> Image.Image:
    """Return a picture in RGB, each value within one of that of `resize`; narrow rows first."""
    width, height = picture.size
    rows = max(1, _PIXELS_OF_A_CALL // width)
    narrow = Image.new("RGB", (min(width, SIDE), height))  # a narrower one is not widened yet
    for top in range(0, height, rows):
        part = picture.crop((0, top, width, min(top + rows, height))).convert("RGB")
        narrow.paste(part.resize((narrow.width, part.height)), (0, top))
    return narrow.resize((SIDE, SIDE))


def shrunk(picture: ImageFile.ImageFile, scale: float) -> Image.Image:
    """Return an opened picture in RGB on white paper, its sides so many times as long.

    Rows are narrowed some at a time, since a call on all of a large picture holds up every thread.
    """
    picture.decodermaxblock = _BLOCK
    picture.load()
    width, height = picture.size
    rows = max(1, _PIXELS_OF_A_CALL // width)
    narrow = Image.new("RGB", (max(1, round(width * scale)), height))
    for top in range(0, height, rows):
        part = _on_white(picture.crop((0, top, width, min(top + rows, height))))
        narrow.paste(part.resize((narrow.width, part.height), Image.Resampling.BOX), (0, top))
    return narrow.resize((narrow.width, max(1, round(height * scale))), Image.Resampling.BOX)


def turned(picture: Image.Image, source: Image.Image) -> Image.Image:
    """Turn a picture as its source's EXIF says."""
    exif = source.getexif()
    picture.info["exif"] = exif.tobytes() if exif else b""
    found: Image.Image = ImageOps.exif_transpose(picture)
    return found


def _on_white(picture: Image.Image) -> Image.Image:
    if "A" not in picture.getbands() and "transparency" not in picture.info:
        return picture.convert("RGB")
    layered = picture.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", layered.size, "white"), layered).convert("RGB")


def decodes_quickly(given: object) -> bool:
    """Return whether a picture has few bytes and, by its header, few pixels.

    Raises:
        InputError: as `pixel_count`.
    """
    size = len(given) if isinstance(given, str | bytes) else 0
    if isinstance(given, Path):
        size = given.stat().st_size
    return size <= _QUICK_BYTES and pixel_count(given) <= _QUICK_PIXELS


def pixel_count(given: object) -> int:
    """Return the number of pixels that a picture's header states; nothing is decoded.

    Raises:
        InputError: the bytes are no picture, or have too many pixels.
    """
    with opened(file_of(given)) as picture:
        width, height = picture.size
    return int(width * height)


@contextmanager
def opened(content: bytes) -> Iterator[ImageFile.ImageFile]:
    """Open a picture that is not too large; an error inside is the picture's fault."""
    check_blocks(content)
    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as picture:
            _check_size(picture)
            yield picture
    except InputError:
        raise
    except UnidentifiedImageError as error:  # its message has an address of this process
        raise InputError(
            f"a picture cannot be read: it is of no such format. {_ALLOWED}."
        ) from error
    except _BROKEN as error:
        raise InputError(f"a picture cannot be read: {error}. {_ALLOWED}.") from error


def _check_size(picture: ImageFile.ImageFile) -> None:
    width, height = picture.size
    if max(width, height) > MOST_SIDE:
        raise InputError(
            f"a picture has a side of {max(width, height):,} pixels; the limit is {MOST_SIDE:,}. "
            "Cut it into parts."
        )
    limit = MOST_WEBP_PIXELS if picture.format == "WEBP" else MOST_PIXELS
    if width * height > limit:
        size = f"{width} x {height} pixels; the limit is {limit:,}"
        other = " or a JPEG" if limit < MOST_PIXELS else ""
        raise InputError(f"a picture has {size}. Send a smaller one{other}.")

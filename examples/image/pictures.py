"""Reads picture files within bounds: of bytes before reading, of pixels before decoding."""

import binascii
import io
from base64 import b64decode
from pathlib import Path

import numpy as np
from PIL import Image

from cog_adapt import InputError

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
MOST_BYTES, MOST_PIXELS = 16 * 2**20, 40_000_000
SIDE = 224
_ALLOWED = (
    f"Send a {', '.join(FORMATS[:-1])} or {FORMATS[-1]} file: as a file, in base64 or as a data URI"
)


def file_of(given: object) -> bytes:
    """Return the bytes of a picture that came as a file, its bytes, base64 or a data URI.

    Raises:
        InputError: it is none of these, or has too many bytes.
    """
    if isinstance(given, Path):
        with given.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    else:
        content = given if isinstance(given, bytes) else _decoded(given)
    if len(content) > MOST_BYTES:
        raise InputError(f"a picture has more than {MOST_BYTES:,} bytes. Send a smaller one.")
    return content


def _decoded(given: object) -> bytes:
    if not isinstance(given, str):
        raise InputError(f"{str(given)[:40]} ({type(given).__name__}) is no picture. {_ALLOWED}.")
    head, comma, body = given.partition(",")
    if given[:4].lower() == "http":
        raise InputError(
            f"a row holds the URL {given[:80]!r}, and what stands in a row is not fetched. Send "
            "`examples_file` (a URL will do): a ZIP with a folder of pictures for each label; or "
            "put the picture into the row, in base64 or as a data URI."
        )
    if given[:5] == "data:" and not (comma and head.endswith(";base64")):
        raise InputError(f"{head[:80]!r} is no data URI in base64. {_ALLOWED}.")
    try:
        return b64decode(body if comma else given, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InputError(f"{given[:40]!r} is no picture: {error}. {_ALLOWED}.") from error


def pixels_of(content: bytes) -> np.ndarray:
    """Return a picture's pixels as the model sees them, (224, 224, 3) of 0 to 255.

    Raises:
        InputError: it is no picture, is broken, or has too many pixels.
    """
    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as picture:
            _check_size(*picture.size)
            picture.draft("RGB", (2 * SIDE, 2 * SIDE))  # a JPEG is decoded no larger than needed
            return np.asarray(picture.convert("RGB").resize((SIDE, SIDE)))
    except InputError:
        raise
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise InputError(f"a picture cannot be read: {error}. {_ALLOWED}.") from error


def _check_size(width: int, height: int) -> None:
    if width * height > MOST_PIXELS:
        size = f"{width} x {height} pixels; the limit is {MOST_PIXELS:,}"
        raise InputError(f"a picture has {size}. Send a smaller one.")

"""Reads WAV files within bounds: of bytes, and of seconds before anything is decoded."""

import io
import math
import struct
import wave
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pybase64

from cog_adapt import InputError

HERTZ, MOST_SECONDS, MOST_BYTES = 16_000, 30, 16 * 2**20
LEAST_RATE, MOST_RATE, MOST_CHANNELS, MOST_CHUNKS = 1_000, 384_000, 64, 1_000
_SCALES = {1: ("u1", 128.0, 128.0), 2: ("<i2", 0.0, 32768.0)}  # zero and one, by bytes
_BROKEN = (EOFError, LookupError, ValueError, RuntimeError, struct.error, wave.Error)
_ALLOWED = "Send a WAV file of 8 or 16 bits: as a file, in base64 or as a data URI"


def file_of(given: object) -> bytes:
    """Return the bytes of a sound that came as a file, its bytes, base64 or a data URI.

    Raises:
        InputError: the value is none of these, or has too many bytes.
    """
    if isinstance(given, Path):
        with given.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    else:
        content = given if isinstance(given, bytes) else _decoded(given)
    if len(content) > MOST_BYTES:
        raise InputError(f"a sound has more than {MOST_BYTES:,} bytes. Send a shorter one.")
    return content


def _decoded(given: object) -> bytes:
    if not isinstance(given, str):
        raise InputError(f"{str(given)[:40]} ({type(given).__name__}) is no sound. {_ALLOWED}.")
    head, comma, body = given.partition(",")
    if given[:4].lower() == "http":
        raise InputError(
            f"a row holds the URL {given[:80]!r}, and what stands in a row is not fetched. Put the "
            "WAV file into the row, in base64 or as a data URI."
        )
    if given[:5] == "data:" and not (comma and head.endswith(";base64")):
        raise InputError(f"{head[:80]!r} is no data URI in base64. {_ALLOWED}.")
    try:
        return pybase64.b64decode(body if comma else given, validate=True)
    except ValueError as error:
        raise InputError(f"{given[:40]!r} is no sound: {error}. {_ALLOWED}.") from error


def wave_of(content: bytes) -> np.ndarray:
    """Return a sound as one channel of 16,000 numbers a second, -1 to 1.

    Raises:
        InputError: the bytes are no WAV file of 8 or 16 bits, are empty, or last too long.
    """
    with _opened(content) as file:
        width, channels, rate = file.getsampwidth(), file.getnchannels(), file.getframerate()
        kind, zero, one = _SCALES[width]
        sent = file.readframes(_frames_of(file, content))
    whole = len(sent) // (width * channels) * channels
    frames = np.frombuffer(sent, kind, whole).reshape(-1, channels)
    _check_length(len(frames) / rate)
    one_channel = (frames.mean(1, dtype=np.float32) - zero) / one
    times = np.arange(0, len(one_channel), rate / HERTZ)
    heard: np.ndarray = np.interp(times, np.arange(len(one_channel)), one_channel)
    return heard.astype(np.float32)


def seconds_of(content: bytes) -> int:
    """Return the whole seconds that a sound's header states; nothing is decoded.

    Raises:
        InputError: as `wave_of`.
    """
    with _opened(content) as file:
        return math.ceil(_frames_of(file, content) / file.getframerate())


@contextmanager
def _opened(content: bytes) -> Iterator[wave.Wave_read]:
    """Open a sound with a readable header that is not too long."""
    _check_chunks(content)
    try:
        with wave.open(io.BytesIO(content)) as file:
            _check_header(file)
            _check_length(_frames_of(file, content) / file.getframerate())
            yield file
    except InputError:
        raise
    except _BROKEN as error:
        raise InputError(f"a sound cannot be read: {error}. {_ALLOWED}.") from error


def _check_chunks(content: bytes) -> None:
    """Refuse a file with more chunks than real sounds have, since each costs its reader time."""
    place, count = 12, 0
    while place + 8 <= len(content):
        length = int.from_bytes(content[place + 4 : place + 8], "little")
        place, count = place + 8 + length + length % 2, count + 1
        if count > MOST_CHUNKS:
            raise InputError(
                f"a sound has more than {MOST_CHUNKS:,} chunks. Save it anew without what is not "
                "its samples."
            )


def _check_header(file: wave.Wave_read) -> None:
    for name, value, least, most in (
        ("bits", 8 * file.getsampwidth(), 8, 16),
        ("channels", file.getnchannels(), 1, MOST_CHANNELS),
        ("samples a second", file.getframerate(), LEAST_RATE, MOST_RATE),
    ):
        if not least <= value <= most:
            allowed = f"{least:,} to {most:,} are allowed"
            raise InputError(f"a sound has {value:,} {name}; {allowed}. {_ALLOWED}.")


def _frames_of(file: wave.Wave_read, content: bytes) -> int:
    """Return the most frames that the bytes can have: the header of a piped sound states more."""
    return min(file.getnframes(), len(content) // (file.getnchannels() * file.getsampwidth()))


def _check_length(seconds: float) -> None:
    if not 0 < seconds <= MOST_SECONDS:
        limit = f"more than 0 and at most {MOST_SECONDS} are allowed"
        raise InputError(f"a sound lasts {seconds:g} seconds; {limit}. Cut it into pieces.")

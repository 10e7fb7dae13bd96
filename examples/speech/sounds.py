"""Reads WAV files within bounds: of bytes, and of seconds before anything is decoded."""

import binascii
import io
import wave
from base64 import b64decode
from pathlib import Path

import numpy as np

from cog_adapt import InputError

HERTZ, MOST_SECONDS, MOST_BYTES = 16_000, 30, 16 * 2**20
_SCALES = {1: (np.uint8, 128.0, 128.0), 2: (np.int16, 0.0, 32768.0)}  # zero and one, by bytes
_ALLOWED = "Send a WAV file of 8 or 16 bits: as a file, in base64 or as a data URI"


def file_of(given: object) -> bytes:
    """Return the bytes of a sound that came as a file, its bytes, base64 or a data URI.

    Raises:
        InputError: it is none of these, or has too many bytes.
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
        return b64decode(body if comma else given, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InputError(f"{given[:40]!r} is no sound: {error}. {_ALLOWED}.") from error


def wave_of(content: bytes) -> np.ndarray:
    """Return a sound as one channel of 16,000 numbers a second, -1 to 1.

    Raises:
        InputError: it is no WAV file of 8 or 16 bits, is empty, or lasts too long.
    """
    try:
        with wave.open(io.BytesIO(content)) as file:
            kind, zero, one = _SCALES[file.getsampwidth()]
            channels, rate = file.getnchannels(), file.getframerate()
            sent = len(content) // (channels * file.getsampwidth())  # a header of a pipe says more
            frames = min(file.getnframes(), sent)
            _check_length(frames / rate)
            sound = np.frombuffer(file.readframes(frames), kind)
    except InputError:
        raise
    except (EOFError, KeyError, ValueError, RuntimeError, ArithmeticError, wave.Error) as error:
        raise InputError(f"a sound cannot be read: {error!r:.200}. {_ALLOWED}.") from error
    frames = sound[: len(sound) // channels * channels].reshape(-1, channels)
    _check_length(len(frames) / rate)  # a header may promise what does not come
    one_channel = (frames.mean(1) - zero) / one
    times = np.arange(0, len(one_channel), rate / HERTZ)
    resampled: np.ndarray = np.interp(times, np.arange(len(one_channel)), one_channel)
    return resampled


def _check_length(seconds: float) -> None:
    if not 0 < seconds <= MOST_SECONDS:
        limit = f"more than 0 and at most {MOST_SECONDS} are allowed"
        raise InputError(f"a sound lasts {seconds:g} seconds; {limit}. Cut it into pieces.")

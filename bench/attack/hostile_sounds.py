"""Sound files with false headers, cut files, and files that cost more than they seem to."""

import struct
from collections.abc import Iterator

_FILE_BYTES = 16 * 2**20 - 4_096  # as many as a sound may have
_PCM, _ADPCM, _IMA_ADPCM, _EXTENSIBLE = 1, 2, 0x11, 0xFFFE
_MOST = 2**32 - 1


def wav(  # noqa: PLR0913 - the fields of a header
    data: bytes = bytes(16_000),
    *,
    kind: int = _PCM,
    channels: int = 1,
    rate: int = 8_000,
    bits: int = 16,
    declared: int | None = None,
    more: bytes = b"",
) -> bytes:
    """Return a WAV file with any header; `more` lies between it and the data."""
    frame = channels * bits // 8 % 2**16
    form = struct.pack("<HHIIHH", kind, channels, rate, rate * frame % 2**32, frame, bits)
    if kind == _EXTENSIBLE:
        form += struct.pack("<HHI", 22, bits, 0) + struct.pack("<H", _PCM) + bytes(14)
    size = len(data) if declared is None else declared
    body = b"WAVE" + b"fmt " + struct.pack("<I", len(form)) + form + more
    return struct.pack("<4sI", b"RIFF", _MOST) + body + struct.pack("<4sI", b"data", size) + data


def headers() -> Iterator[bytes]:
    """Yield false headers: of 4 GiB, of no channel, of rates from 1 Hz to 4 GHz."""
    for declared in (0, 2**31, _MOST):
        yield wav(declared=declared)
    for channels in (0, 65, 65_535):
        yield wav(channels=channels)
    for rate in (0, 1, 999, 384_001, _MOST):
        yield wav(rate=rate)
    for bits in (0, 1, 12, 24, 32, 64, 65_535):
        yield wav(bits=bits)
    yield from (wav(kind=kind) for kind in (0, _ADPCM, 3, 6, 7, _IMA_ADPCM, 0x55, _EXTENSIBLE))
    yield wav(kind=_EXTENSIBLE, channels=65_535)
    for name in (b"LIST", b"fmt ", b"fact"):
        yield wav(more=name + struct.pack("<I", _MOST))
    yield wav(channels=64, rate=384_000, data=bytes(_FILE_BYTES - 1_000))


def cut() -> Iterator[bytes]:
    """Yield a sound that is cut at several places."""
    whole = wav()
    yield from (whole[:end] for end in (0, 3, 11, 19, 30, 43, 44, 45, 8_000, -1))


def many_chunks() -> Iterator[bytes]:
    """Yield files of the largest allowed size, with as many chunks as fit."""
    chunks = b"junk\0\0\0\0" * ((_FILE_BYTES - 20_000) // 8)
    yield wav(more=chunks)
    yield wav() + chunks
    yield wav(more=b"junk\1\0\0\0a\0" * ((_FILE_BYTES - 20_000) // 10))


def long_sounds() -> Iterator[bytes]:
    """Yield the longest and the shortest allowed sounds, and those with one second more."""
    yield wav(bytes(30 * 16_000 * 2), rate=16_000)
    yield wav(bytes(31 * 16_000 * 2), rate=16_000)
    yield from (wav(bytes(2)), wav(b""), wav(bytes(3)))

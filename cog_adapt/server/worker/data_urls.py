"""Reads `data:` URLs, the files inside a caller's input.

A URL is decoded in pieces: each copy of one of 22 MB would keep the other threads waiting for up to
10 ms.
"""

import urllib.parse
from collections.abc import Iterator

import pybase64

from cog_adapt.server.errors import InputError

_SHOWN = 80
PIECE = 2**16  # characters


def is_url(text: str) -> bool:
    """Return whether a text may name an input file: a `data:` or `http(s)://` URL."""
    return text.startswith(("data:", "http://", "https://"))


def data_url_pieces(url: str, most_bytes: int) -> Iterator[bytes]:
    """Yield the content of a `data:` URL, at most PIECE bytes at a time.

    Raises:
        InputError: the URL is malformed, or holds more than `most_bytes`.
    """
    comma = url.find(",")
    if comma < 0:
        raise InputError(
            f"{url[:_SHOWN]!r} is no data URL: it has no comma. Send data:TYPE;base64,…"
        )
    pieces = _unquoted(url, comma + 1)
    if url.endswith(";base64", 0, comma):
        pieces = _from_base64(pieces, url)
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > most_bytes:
            raise InputError(
                f"{url[:_SHOWN]!r} holds more than {most_bytes:,} bytes. Send a smaller file."
            )
        yield piece


def _unquoted(url: str, start: int) -> Iterator[bytes]:
    """Yield a URL from a place on, with each %XX as a byte."""
    while start < len(url):
        piece = url[start : start + PIECE]
        begun = piece.find("%", len(piece) - 2)  # an escape that the piece may cut
        if begun > 0 and start + len(piece) < len(url):
            piece = piece[:begun]
        yield urllib.parse.unquote_to_bytes(piece)
        start += len(piece)


def _from_base64(pieces: Iterator[bytes], url: str) -> Iterator[bytes]:
    left = b""
    try:
        for piece in pieces:
            left += piece
            # Only the last four characters may be padded, and they wait for the end: padding
            # before them is replaced by what no alphabet has.
            end = max(0, len(left) - 1) // 4 * 4
            yield pybase64.b64decode(left[:end].replace(b"=", b"!"), validate=True)
            left = left[end:]
        yield pybase64.b64decode(left, validate=True)
    except ValueError as error:
        raise InputError(
            f"{url[:_SHOWN]!r} is no sound base64: it has other characters, or wrong padding "
            "at its end. Encode it again."
        ) from error

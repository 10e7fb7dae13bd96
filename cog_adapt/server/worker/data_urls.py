"""Reads `data:` URLs, the files inside a caller's input."""

import urllib.parse

import pybase64

from cog_adapt.server.errors import InputError

_SHOWN = 80


def is_url(text: str) -> bool:
    """Return whether a text may name an input file: a `data:` or `http(s)://` URL."""
    return text.startswith(("data:", "http://", "https://"))


def read_data_url(url: str, most_bytes: int) -> bytes:
    """Return the content of a `data:` URL.

    Raises:
        InputError: the URL is malformed, or holds more than `most_bytes`.
    """
    content = _decode(url)
    if len(content) > most_bytes:
        raise InputError(
            f"{url[:_SHOWN]!r} holds more than {most_bytes:,} bytes. Send a smaller file."
        )
    return content


def _decode(url: str) -> bytes:
    head, comma, body = url.partition(",")
    if not comma:
        raise InputError(
            f"{url[:_SHOWN]!r} is no data URL: it has no comma. Send data:TYPE;base64,…"
        )
    raw = urllib.parse.unquote_to_bytes(body)
    if not head.endswith(";base64"):
        return raw
    try:
        return pybase64.b64decode(raw, validate=True)
    except ValueError as error:
        raise InputError(
            f"{url[:_SHOWN]!r} is no sound base64: it has other characters, or wrong padding "
            "at its end. Encode it again."
        ) from error

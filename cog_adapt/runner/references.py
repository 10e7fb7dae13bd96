"""What a caller names instead of sending: `data:` and `http(s)://` URLs, read into bytes."""

import base64
import binascii
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable

from cog_adapt.runner.errors import InputError

_MOST_BYTES = 512 * 2**20
_TIMEOUT_SECONDS = 30
_SHOWN = 80


def is_url(reference: str) -> bool:
    """Whether `reference` is a URL that `read_url` reads."""
    return reference.startswith(("data:", "http://", "https://"))


def read_url(url: str, most_bytes: int = _MOST_BYTES) -> bytes:
    """The bytes behind a `data:` or `http(s)://` URL.

    Raises:
        InputError: it cannot be read, or holds more than `most_bytes`.
    """
    content = _from_data_url(url) if url.startswith("data:") else download(url, most_bytes)
    if len(content) > most_bytes:
        raise InputError(
            f"{url[:_SHOWN]!r} holds more than {most_bytes:,} bytes. Send a smaller file."
        )
    return content


def _from_data_url(url: str) -> bytes:
    head, comma, body = url.partition(",")
    if not comma:
        raise InputError(
            f"{url[:_SHOWN]!r} is no data URL: it has no comma. Send data:TYPE;base64,…"
        )
    raw = urllib.parse.unquote_to_bytes(body)
    if not head.endswith(";base64"):
        return raw
    try:
        return base64.b64decode(raw, validate=True)
    except binascii.Error as error:
        raise InputError(
            f"{url[:_SHOWN]!r} is no sound base64: {error}. Encode it again."
        ) from error


def guarded(read: Callable[[str, int], bytes]) -> Callable[[str, int], bytes]:
    """A function for the place of `download`; a ValueError of `read` is meant for the caller."""

    def read_guarded(url: str, most_bytes: int) -> bytes:
        try:
            return read(url, most_bytes)
        except ValueError as error:
            raise InputError(str(error)) from error

    return read_guarded


def download(url: str, most_bytes: int, /) -> bytes:
    """The bytes behind an `http(s)://` URL, one more than `most_bytes` at most.

    A process that guards its way out puts its own function in this one's place.

    Raises:
        InputError: it cannot be read.
    """
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as answer:
            return bytes(answer.read(most_bytes + 1))
    except (OSError, ValueError, urllib.error.URLError) as error:
        raise InputError(f"{url[:_SHOWN]!r} cannot be read: {error}. Check the address.") from error

"""The end of a page, as a text that the client sends for the next page."""

import base64
import binascii
from datetime import datetime
from typing import Protocol, TypeVar

import msgspec

from cog_adapt.server.errors import InputError


class _Place(Protocol):
    @property
    def created_at(self) -> datetime: ...
    @property
    def id(self) -> str: ...
    @property
    def owner(self) -> str: ...


T = TypeVar("T", bound=_Place)
_MOST_CHARACTERS = 4096


def write_cursor(place: object) -> str:
    """Return the text of a place."""
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def read_cursor(text: str | None, kind: type[T]) -> T | None:
    """Return the place that a text names.

    Raises:
        InputError: the text was not made here.
    """
    if text is None:
        return None
    refusal = f"cursor {text[:80]!r} is not from this server; leave it out for the first page"
    if len(text) > _MOST_CHARACTERS:
        raise InputError(refusal)
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        decoded = msgspec.json.decode(data, type=kind)
    except (binascii.Error, ValueError, RecursionError, msgspec.DecodeError) as error:
        raise InputError(refusal) from error
    if decoded.created_at.tzinfo is None or "\0" in decoded.id + decoded.owner:
        raise InputError(refusal)
    return decoded

"""The text of a place is read as that place, and no other text is."""

import base64
from datetime import UTC, datetime

import msgspec
import pytest

from cog_adapt.server.errors import InputError
from cog_adapt.server.records.cursors import read_cursor, write_cursor


class Place(msgspec.Struct, frozen=True, array_like=True):
    created_at: datetime
    id: str
    owner: str = ""


def in_base64(text):
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def test_a_place_comes_back():
    place = Place(datetime(2026, 11, 22, tzinfo=UTC), "a/\u00e9")
    assert read_cursor(write_cursor(place), Place) == place
    assert read_cursor(None, Place) is None


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "%", "\u00e9"),
        in_base64(b"[1, 2]"),
        in_base64(b'["2026-11-22T00:00:00", "no zone"]'),
        in_base64(b'["2026-11-22T00:00:00+00:00"]'),
        in_base64(b'["2026-11-22T00:00:00Z", "\\u0000"]'),
        in_base64(b'["2026-11-22T00:00:00Z", "a", "\\u0000"]'),
    ],
)
def test_another_text_is_refused(text):
    with pytest.raises(InputError, match="is not from this server; leave it out"):
        read_cursor(text, Place)

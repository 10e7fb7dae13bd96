"""`data:` URLs."""

from types import SimpleNamespace
from urllib.parse import unquote_to_bytes

import pybase64
import pytest

from cog_adapt.server.errors import InputError
from cog_adapt.server.worker import data_urls
from cog_adapt.server.worker.data_urls import PIECE, data_url_pieces, is_url


def read_data_url(url, most_bytes):
    return b"".join(data_url_pieces(url, most_bytes))


@pytest.mark.parametrize("text", ["data:,x", "http://h", "https://h"])
def test_these_are_urls(text):
    assert is_url(text)


@pytest.mark.parametrize(
    "text", ["", "file:///x", "/x", "ftp://h", "x data:,", "DATA:,x", "http:/"]
)
def test_these_are_none(text):
    assert not is_url(text)


@pytest.mark.parametrize(
    ("url", "content"),
    [
        ("data:,", b""),
        ("data:text/plain,h%20i+%C3%A9", "h i+é".encode()),
        ("data:;base64,aGk%3D", b"hi"),
        ("data:text/plain;base64;x,aGk=", b"aGk="),
        ("data:text/plain,a,b", b"a,b"),
    ],
)
def test_the_content_is_decoded(url, content):
    assert read_data_url(url, 100) == content


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        (
            "data:text/plain;base64",
            "'data:text/plain;base64' is no data URL: it has no comma. Send data:TYPE;base64,…",
        ),
        (
            "data:;base64,a",
            "'data:;base64,a' is no sound base64: it has other characters, or wrong "
            "padding at its end. Encode it again.",
        ),
        (
            "data:;base64,a!k=",
            "'data:;base64,a!k=' is no sound base64: it has other characters, or wrong "
            "padding at its end. Encode it again.",
        ),
    ],
)
def test_a_malformed_one_is_told_with_the_remedy(url, reason):
    with pytest.raises(InputError) as caught:
        read_data_url(url, 100)
    assert str(caught.value) == reason


def test_the_limit_is_of_the_content_and_the_message_shows_80_characters():
    assert read_data_url("data:;base64,eHh4eA==", 4) == b"xxxx"
    url = "data:," + "x" * 1001
    assert len(read_data_url(url, 1001)) == 1001
    with pytest.raises(InputError) as caught:
        read_data_url(url, 1000)
    shown = "data:," + "x" * 74
    assert str(caught.value) == f"'{shown}' holds more than 1,000 bytes. Send a smaller file."


@pytest.mark.parametrize("size", [PIECE - 1, PIECE, 3 * PIECE, 3 * PIECE + 2])
@pytest.mark.parametrize("percent", ["%", "%2", "%25", "%%41", ""])
def test_a_long_one_is_decoded_in_pieces_of_bounded_size(size, percent):
    content = "é".encode() + bytes(range(256)) * (size // 256)
    encoded = pybase64.b64encode(content).decode()
    for url, whole in (
        (f"data:;base64,{encoded}", content),
        (f"data:;base64,{encoded.replace('=', '%3D').replace('A', '%41')}", content),
        (f"data:,{'x' * size}{percent}x", b"x" * size + unquote_to_bytes(f"{percent}x")),
    ):
        pieces = [*data_url_pieces(url, 2**24)]
        assert b"".join(pieces) == whole
        assert max(map(len, pieces)) <= PIECE


@pytest.mark.parametrize("place", [3, PIECE - 4, 2 * PIECE - 4, -5])
def test_padding_before_the_end_is_refused(place):
    text = "A" * 4 * PIECE
    text = text[: place - 1] + "=" + text[place:]
    with pytest.raises(InputError, match="no sound base64"):
        read_data_url(f"data:;base64,{text}", 2**24)


def test_nothing_is_decoded_beyond_the_limit(monkeypatch):
    decoded: list[int] = []

    def decode(text, **options):
        decoded.append(len(text))
        return pybase64.b64decode(text, **options)

    monkeypatch.setattr(data_urls, "pybase64", SimpleNamespace(b64decode=decode))
    with pytest.raises(InputError, match="more than 100 bytes"):
        read_data_url(f"data:;base64,{'A' * 100 * PIECE}", 100)
    assert sum(decoded) <= PIECE

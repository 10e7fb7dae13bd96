"""What a caller names instead of sending."""

import base64

import pytest

from cog_adapt.runner import references
from cog_adapt.runner.errors import InputError
from cog_adapt.runner.references import download, is_url, read_url


def test_a_process_may_put_its_own_download_in_place(monkeypatch):
    monkeypatch.setattr(references, "download", lambda url, most: f"{url} {most}".encode())
    assert read_url("http://host/x", 100) == b"http://host/x 100"


def test_its_answer_is_measured_too(monkeypatch):
    monkeypatch.setattr(references, "download", lambda _url, most: b"x" * (most + 1))
    with pytest.raises(InputError, match="holds more than 5 bytes"):
        read_url("http://host/x", 5)


def test_a_guarded_reader_tells_the_caller_its_reason_as_the_runner_does():
    def read(url, most_bytes):
        if most_bytes == 1:
            raise UnicodeError(f"{url} is closed")
        return b"content"

    assert references.guarded(read)("http://host/x", 2) == b"content"
    with pytest.raises(InputError, match="http://host/x is closed"):
        references.guarded(read)("http://host/x", 1)


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("data:,x", True),
        ("http://host/x", True),
        ("https://host/x", True),
        ("ftp://host/x", False),
        ("0123456789abcdef", False),
        ("text,label", False),
    ],
)
def test_a_url_is_told_from_other_texts(reference, expected):
    assert is_url(reference) is expected


@pytest.mark.parametrize(
    ("url", "content"),
    [
        ("data:,a%20b", b"a b"),
        ("data:text/plain,a,b", b"a,b"),
        ("data:text/plain;base64," + base64.b64encode(b"\0\xff").decode(), b"\0\xff"),
        ("data:;base64,", b""),
        ("data:text/plain;base64,YQ%3D%3D", b"a"),
    ],
)
def test_a_data_url_holds_its_content(url, content):
    assert read_url(url) == content


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("data:text/plain", "is no data URL: it has no comma"),
        ("data:;base64,YQ", "is no sound base64"),
        ("data:;base64,Y!Q==", "is no sound base64"),
    ],
)
def test_a_data_url_that_cannot_be_read_is_refused(url, reason):
    with pytest.raises(InputError, match=reason):
        read_url(url)


def test_content_at_the_limit_is_taken_and_more_is_refused_in_a_short_text():
    assert read_url("data:,12345", 5) == b"12345"
    with pytest.raises(InputError, match=r"holds more than 1,000 bytes") as caught:
        read_url("data:," + "x" * 1001, 1000)
    assert len(str(caught.value)) < 200


def test_by_default_half_a_gibibyte_is_the_limit(monkeypatch):
    monkeypatch.setattr(references, "download", lambda _url, most: str(most).encode())
    assert read_url("http://host/x") == b"536870912"


def test_a_download_reads_one_byte_more_than_the_limit_and_no_further(httpserver):
    httpserver.expect_request("/x").respond_with_data(b"0123456789")
    url = httpserver.url_for("/x")
    assert download(url, 4) == b"01234"
    assert download(url, 10) == b"0123456789"
    assert read_url(url) == b"0123456789"


def test_an_address_that_does_not_answer_is_refused(httpserver):
    httpserver.expect_request("/gone").respond_with_data(b"", status=404)
    for url in (httpserver.url_for("/gone"), "http://127.0.0.1:1/x", "http://[broken/x"):
        with pytest.raises(InputError, match="cannot be read: .* Check the address"):
            read_url(url)

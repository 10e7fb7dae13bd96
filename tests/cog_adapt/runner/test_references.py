"""What a caller names instead of sending."""

import pytest

from cog_adapt.runner import references
from cog_adapt.runner.errors import InputError
from cog_adapt.runner.references import read_url


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

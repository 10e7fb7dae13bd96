"""A body as a file: bounded, and few at once."""

import asyncio

import pytest
from starlette.requests import ClientDisconnect, Request

from cog_adapt.server.api.upload import MOST_AT_ONCE, MOST_OF_AN_OWNER, UploadCounter, receive_file
from cog_adapt.server.errors import DiskFull, QueueFull, TooLarge


def request(*parts, ends=True):
    messages = [
        {"type": "http.request", "body": part, "more_body": not ends or number < len(parts)}
        for number, part in enumerate(parts, 1)
    ]

    async def receive():
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    return Request({"type": "http", "method": "POST", "headers": []}, receive)


def test_all_parts_are_in_the_file(tmp_path):
    parts = [b"x" * 700_000, b"y" * 700_000, b"", b"z"]
    asyncio.run(receive_file(request(*parts), tmp_path / "a", 1_400_001))
    assert (tmp_path / "a").read_bytes() == b"".join(parts)


def test_an_empty_body_is_an_empty_file(tmp_path):
    asyncio.run(receive_file(request(b""), tmp_path / "a", 1))
    assert (tmp_path / "a").read_bytes() == b""


def test_a_byte_too_many_is_refused_before_it_is_written(tmp_path):
    with pytest.raises(TooLarge, match="more than 10 bytes"):
        asyncio.run(receive_file(request(b"x" * 10, b"y"), tmp_path / "a", 10))
    assert not (tmp_path / "a").exists()


def test_a_file_that_cannot_be_written_is_refused_with_the_cause(tmp_path):
    with pytest.raises(DiskFull, match=r"No such file or directory\. Try later\."):
        asyncio.run(receive_file(request(b"x"), tmp_path / "none" / "a", 10))


def test_a_client_that_leaves_is_no_whole_file(tmp_path):
    with pytest.raises(ClientDisconnect):
        asyncio.run(receive_file(request(b"x", ends=False), tmp_path / "a", 10))


def test_few_are_under_way_of_an_owner_and_in_all():
    uploads, held = UploadCounter(), []

    def begin(owner):
        upload = uploads.one_of(owner)
        upload.__enter__()
        held.append(upload)

    for number in range(MOST_AT_ONCE):
        begin(f"owner{number // MOST_OF_AN_OWNER}")
    for owner in ("owner0", "other"):
        with pytest.raises(QueueFull, match="Try later"):
            begin(owner)
    while held:
        held.pop().__exit__(None, None, None)
    begin("owner0")

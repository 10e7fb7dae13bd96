"""An open file as an answer: whole, in portions, and closed."""

import asyncio

import pytest

from cog_adapt.server.api.file_response import PORTION, FileResponse

SCOPE = {"type": "http", "asgi": {"spec_version": "2.3"}, "method": "GET"}


async def stay():
    await asyncio.Event().wait()


async def leave():
    return {"type": "http.disconnect"}


def sent_by(response, receive=stay):
    sent = []

    async def send(message):
        sent.append(message)

    asyncio.run(response(SCOPE, receive, send))
    return sent


@pytest.mark.parametrize("size", [0, 1, PORTION, PORTION + 1])
def test_a_file_is_sent_whole_and_closed(tmp_path, size):
    path = tmp_path / "file"
    path.write_bytes(b"x" * size)
    file = path.open("rb")
    start, *parts = sent_by(FileResponse(file, "a.zip", "application/zip"))
    assert b"".join(each["body"] for each in parts) == b"x" * size
    assert dict(start["headers"]) == {
        b"content-length": b"%d" % size,
        b"content-type": b"application/zip",
        b"content-disposition": b'attachment; filename="a.zip"',
        b"x-content-type-options": b"nosniff",
    }
    assert file.closed


def test_a_file_is_closed_where_the_client_has_left(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * 10 * PORTION)
    file = path.open("rb")
    assert len(sent_by(FileResponse(file, "a", "application/zip"), leave)) < 10
    assert file.closed

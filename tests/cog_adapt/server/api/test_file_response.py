"""An open file as an answer: whole, in portions, and closed."""

import asyncio
import time

import pytest

from cog_adapt.server.api.file_response import PORTION, FilePace, FileResponse

SCOPE = {"type": "http", "asgi": {"spec_version": "2.3"}, "method": "GET"}


def answer_of(file, name, pace=None, owner="a"):
    return FileResponse(file, name, "application/zip", pace=pace or FilePace(), owner=owner)


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
    start, *parts = sent_by(answer_of(file, "a.zip"))
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
    assert len(sent_by(answer_of(file, "a"), leave)) < 10
    assert file.closed


def owners_of_portions(tmp_path, files, pace):
    """Send a file of ten portions for each owner of the list; return who got each portion."""
    path, seen = tmp_path / "file", []
    path.write_bytes(b"x" * 10 * PORTION)

    async def send_all():
        await asyncio.gather(*(send_one(owner) for owner in files))

    async def send_one(owner):
        async def send(message):
            if message.get("body"):
                seen.append(owner)

        await answer_of(path.open("rb"), "a", pace, owner)(SCOPE, stay, send)

    asyncio.run(send_all())
    return seen


def test_files_together_leave_no_faster_than_the_pace(tmp_path):
    start = time.monotonic()
    seen = owners_of_portions(tmp_path, ["a", "a", "b"], FilePace(100 * PORTION))
    assert len(seen) == 30
    assert time.monotonic() - start >= 27 / 100  # the first portion of each waits for none


def test_an_owner_of_one_file_gets_every_other_portion(tmp_path):
    seen = owners_of_portions(tmp_path, [*"aaaaaaaa", "b"], FilePace(500 * PORTION))
    assert len([at for at, owner in enumerate(seen) if owner == "b"]) == 10
    last = max(at for at, owner in enumerate(seen) if owner == "b")
    assert last < 40  # of 90: 9 first portions, then turn by turn

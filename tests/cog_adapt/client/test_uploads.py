"""Large files of inputs are uploaded; limits of bytes and time are errors of their own."""

import asyncio
import time
import uuid

import pytest

from cog_adapt import AsyncClient, Client
from cog_adapt.client import RequestTooLarge, RunCanceled, StorageFull
from tests.cog_adapt.contract.serving import serving
from tests.cog_adapt.server.command.conftest import make_folder

PREDICTOR = """\
import time

from cog import BaseRunner, Input, Path


class Predictor(BaseRunner):
    def run(
        self,
        file: Path | None = Input(default=None),
        files: list[Path] = Input(default=[]),
        text: str = "",
        rows: list[dict] = Input(default=[]),
        seconds: float = 0,
    ) -> list[str]:
        print(text[:100])
        for _ in range(int(seconds * 100)):
            time.sleep(0.01)
        found = [f"{one.suffix} {one.stat().st_size}" for one in [file, *files] if one]
        return [*found, text[:20], *(row["x"][:20] for row in rows)]
"""
LIMITS = {"MAX_BODY_BYTES": "100000", "MAX_FILE_BYTES": "150000", "UPLOAD_BYTES": "400000"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = make_folder(tmp_path_factory.mktemp("uploads") / "files", PREDICTOR)
    with serving("mirror", folder, predict="predict.py:Predictor", env=LIMITS) as running:
        yield running


@pytest.fixture
def client(server):
    with Client(server.url, upload_above=1000) as made:
        yield made


@pytest.fixture
def large(tmp_path):
    path = tmp_path / "large.bin"
    path.write_bytes(b"x" * 90_000)  # more than the body has room for in base64
    return path


def kept(client):
    found = client.request("GET", "/v1/files").json()["results"]
    return [(each["name"], each["size"], each["content_type"]) for each in found]


def test_large_files_are_uploaded_once_and_read_by_their_names(client, large, tmp_path):
    (tmp_path / "small.txt").write_text("s" * 1000)
    name, inputs = uuid.uuid4().hex, {"file": large, "files": [tmp_path / "small.txt", large]}
    run = client.predict(inputs, run_id=name)
    assert run.output[:3] == [".bin 90000", ".txt 1000", ".bin 90000"]
    assert kept(client) == [("large.bin", 90_000, "application/octet-stream")]
    again = client.predict(inputs, run_id=name)
    assert again.output == run.output, "the same run: the same URL stands for the same file"
    assert len(kept(client)) == 1


def test_an_input_of_text_and_rows_get_their_files_in_the_body(client, tmp_path):
    (tmp_path / "a.png").write_bytes(b"y" * 2000)
    run = client.predict(text=tmp_path / "a.png", rows=[{"x": tmp_path / "a.png"}])
    assert run.output == ["data:image/png;base6"] * 2


def test_the_asynchronous_client_uploads_too(server, tmp_path):
    (tmp_path / "b.bin").write_bytes(b"z" * 2001)

    async def work():
        async with AsyncClient(server.url, upload_above=2000) as client:
            return await client.predict(file=tmp_path / "b.bin")

    assert asyncio.run(work()).output[0] == ".bin 2001"


def test_what_is_too_large_is_an_error_of_its_own(client, large, tmp_path):
    with pytest.raises(RequestTooLarge, match="larger than 100000 bytes") as caught:
        client.predict(rows=[{"x": "x" * 200_000}])
    assert caught.value.status == 413
    with Client(client.url, upload_above=10**6) as whole, pytest.raises(RequestTooLarge):
        whole.predict(file=large)
    (tmp_path / "huge").write_bytes(b"h" * 160_000)
    with pytest.raises(RequestTooLarge, match="MAX_FILE_BYTES"):
        client.predict(file=tmp_path / "huge")
    many = [tmp_path / str(number) for number in range(5)]
    for path in many:
        path.write_bytes(path.name.encode() * 120_000)
    with pytest.raises(StorageFull, match="UPLOAD_BYTES") as full:
        client.predict(files=many)
    assert full.value.status == 507


def test_a_deadline_cancels_the_run_on_the_server(client):
    name, began = uuid.uuid4().hex, time.monotonic()
    with pytest.raises(RunCanceled) as caught:
        client.predict(seconds=600, run_id=name, deadline=0.5)
    assert caught.value.run.status == client.get(name).status == "canceled"
    assert time.monotonic() - began < 300
    assert client.predict(seconds=0, deadline=600).status == "succeeded"

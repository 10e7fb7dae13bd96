"""Output files that are PUT below an upload URL."""

import io

import cog
import pytest

from cog_adapt.server.worker.outputs import to_json
from cog_adapt.server.worker.uploads import FileContent, FileUploads, UploadError


@pytest.fixture
def path(tmp_path):
    path = cog.Path(tmp_path / "a b.txt")
    path.write_text("content")
    return path


def test_a_server_that_is_not_there_is_an_error(path):
    with pytest.raises(UploadError, match="upload request failed"):
        to_json(path, FileUploads("http://127.0.0.1:9/up/", "the-id"))


def test_a_file_on_disk_is_read_when_it_is_needed(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"hi")
    content = FileContent.of(tmp_path / "a.txt")
    assert content == FileContent("a.txt", tmp_path / "a.txt")
    (tmp_path / "a.txt").write_bytes(b"longer")
    assert (content.size, content.whole(), list(content)) == (6, b"longer", [b"longer"])


def test_an_open_file_is_read_from_its_start():
    file = io.BytesIO(b"content")
    file.read(3)
    content = FileContent.of(file)
    assert content == FileContent("", b"content")
    assert (content.size, content.whole(), list(content)) == (7, b"content", [b"content"])
    assert FileContent.of(io.StringIO("é")).source == "é".encode()


def test_an_open_file_that_cannot_go_back_is_read_on(tmp_path):
    class Pipe(io.BytesIO):
        name: str | int = "/somewhere/a.wav"

        def seekable(self):
            return False

    pipe = Pipe(b"content")
    pipe.read(3)
    assert FileContent.of(pipe) == FileContent("a.wav", b"tent")
    pipe.name = 3  # of a descriptor
    assert FileContent.of(pipe).name == ""


def test_its_bytes_come_in_pieces_again_and_again(tmp_path):
    data = bytes(2**20) + b"x"
    (tmp_path / "large").write_bytes(data)
    for source in (data, tmp_path / "large"):
        content = FileContent("large", source)
        for _ in range(2):
            assert [len(piece) for piece in content] == [2**20, 1]


def test_open_files_are_numbered_with_the_others(httpserver, path):
    httpserver.expect_request("/up/a b.txt").respond_with_data("")
    httpserver.expect_request("/up/1.txt").respond_with_data("")
    uploads = FileUploads(httpserver.url_for("/up"), "p")
    uploads.link(FileContent.of(path))
    text = FileContent("notes.txt", b"x")
    assert uploads.link(text) == httpserver.url_for("/up/1.txt")


def test_a_silent_server_is_given_25_seconds(monkeypatch):
    calls = []

    def put(url, **options):
        calls.append(options)
        raise ModuleNotFoundError

    monkeypatch.setattr("cog_adapt.server.worker.uploads.httpx2.put", put)
    with pytest.raises(ModuleNotFoundError):
        FileUploads("http://h", "p").link(FileContent("", b""))
    assert calls[0]["timeout"] == 25.0
    assert calls[0]["follow_redirects"] is True

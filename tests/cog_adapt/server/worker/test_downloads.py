"""The files of a prediction's inputs."""

import contextlib
import socket
import tempfile
import threading
import time

import pytest

from cog_adapt.server.egress import DownloadError
from cog_adapt.server.errors import InputError
from cog_adapt.server.worker.config import WorkerConfig
from cog_adapt.server.worker.downloads import Downloads, InputFiles, file_name
from tests.cog_adapt.waiting import assert_stays, wait_until


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def downloads(folder):
    config = WorkerConfig(
        "predict.py",
        egress_allow=("127.0.0.1",),
        user_agent="agent/1",
        max_file_bytes=10,
        prefix="tmpmine_",
    )
    return Downloads(config)


@pytest.fixture
def files(downloads):
    return InputFiles(downloads)


def wait_for(files):
    files.wait(lambda: False)


def test_more_than_the_limit_is_refused(downloads, folder, httpserver):
    httpserver.expect_request("/x").respond_with_data("x" * 11)
    url = httpserver.url_for("/x")
    with pytest.raises(DownloadError, match="more than 10 bytes"):
        downloads.fetch(url, folder / "x", downloads.new_transfer())
    with pytest.raises(InputError, match="more than 10 bytes"):
        downloads.fetch("data:," + "x" * 11, folder / "x", downloads.new_transfer())


def test_an_address_that_is_not_allowed_is_refused(folder, httpserver):
    downloads = Downloads(WorkerConfig("predict.py"))
    with pytest.raises(InputError, match="'localhost' is not reached for a caller"):
        downloads.fetch(httpserver.url_for("/secret"), folder / "x", downloads.new_transfer())
    assert not httpserver.log


def test_eight_files_are_fetched_at_once(downloads, monkeypatch):
    gate, begun = threading.Event(), []

    def fetch(url, _path, _transfer):
        begun.append(url)
        gate.wait(10)

    monkeypatch.setattr(downloads, "fetch", fetch)
    files = InputFiles(downloads)
    files.start([f"http://h/{number}" for number in range(10)])
    wait_until(lambda: len(begun) == 8)
    assert_stays(lambda: len(begun) == 8, 0.05)
    gate.set()
    wait_for(files)
    assert len(begun) == 10


def test_all_is_closed_and_removed_at_the_end(files, folder):
    files.start(["data:,a", "data:,b"])
    wait_for(files)
    opened = files.open(files.paths[0])
    assert opened.read() == b"a"
    files.paths[1].unlink()  # the user's code may have moved it
    files.close()
    assert opened.closed
    assert list(folder.iterdir()) == []


def test_a_file_that_is_still_being_written_is_removed_afterwards(downloads, folder, monkeypatch):
    gate = threading.Event()

    def fetch(_url, path, _transfer):
        gate.wait(10)
        path.write_text("late")

    monkeypatch.setattr(downloads, "fetch", fetch)
    files = InputFiles(downloads)
    fetches = files.start([f"http://h/{number}" for number in range(9)])
    files.close()
    gate.set()
    wait_until(lambda: not list(folder.iterdir()))
    assert sum(fetch.cancelled() for fetch in fetches) == 1  # the ninth never began


@contextlib.contextmanager
def dripping_server():
    """Sends some bytes every few milliseconds to whoever asks; yields URL, who asked, who left."""
    asked, left = [], []

    def drip(connection):
        with connection, contextlib.suppress(OSError):
            connection.recv(2**16)
            asked.append(connection)
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")
            while True:
                connection.sendall(b"x" * 100)
                time.sleep(0.01)
        left.append(connection)

    def serve():
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=drip, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/x", asked, left
        listener.shutdown(socket.SHUT_RDWR)


def test_what_nobody_wants_any_more_is_not_fetched_further(folder):
    downloads = Downloads(WorkerConfig("predict.py", egress_allow=("127.0.0.1",)))
    files, before = InputFiles(downloads), set(threading.enumerate())

    def downloading():
        threads = set(threading.enumerate()) - before
        return [each for each in threads if each.name.startswith("download")]

    with dripping_server() as (url, asked, left):
        files.start([url] * 8)
        wait_until(lambda: len(asked) == 8)
        assert len(downloading()) == 8
        files.close()
        wait_until(lambda: len(left) == 8 and not downloading())
        assert list(folder.iterdir()) == []


def test_eight_dripping_files_hold_up_no_file_of_another_prediction(downloads):
    slow, quick, end = InputFiles(downloads), InputFiles(downloads), time.monotonic() + 10
    with dripping_server() as (url, *_), contextlib.closing(slow), contextlib.closing(quick):
        fetches = slow.start([url] * 8)
        (fetch,) = quick.start(["data:,a"])
        quick.wait(lambda: time.monotonic() > end)
        assert fetch.done()
        assert not any(each.done() for each in fetches)


def test_a_file_has_a_deadline_however_steadily_it_comes(folder):
    config = WorkerConfig("predict.py", egress_allow=("127.0.0.1",), download_seconds=1)
    files, end = InputFiles(Downloads(config)), time.monotonic() + 20
    with dripping_server() as (url, _, left), contextlib.closing(files):
        files.start([url])
        with pytest.raises(InputError, match=r"too slow: .* 1 s \(DOWNLOAD_SECONDS\)"):
            files.wait(lambda: time.monotonic() > end)
        wait_until(lambda: len(left) == 1)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("http://h/a/b%20c.png?x=y.z", "b c.png"),
        ("http://h/", ""),
        ("http://h/a%2Fb%00", "a_b_"),
        ("data:image/png;base64,xx", "file.png"),
        ("data:no/such,xx", "file"),
    ],
)
def test_a_file_is_named_as_its_url(url, name):
    assert file_name(url) == name


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("x" * 200, "x" * 200),
        ("x" * 201, "x" * 199 + "~"),
        ("x" * 200 + ".png", "x" * 195 + "~.png"),
        ("x." + "y" * 300, "~." + "y" * 198),
        ("ä" * 150 + ".png", "ä" * 97 + "~.png"),
    ],
)
def test_a_name_has_200_bytes_at_most(name, kept):
    assert file_name(f"http://h/{name}") == kept

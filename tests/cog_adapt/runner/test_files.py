"""A file is there whole or not at all."""

import os
import subprocess
import threading
from pathlib import Path

import pytest

from cog_adapt.runner.data.files import read_text, utf8, write_whole
from cog_adapt.runner.errors import InputError, StoreError


def test_what_is_written_is_read(tmp_path):
    write_whole(tmp_path / "deep" / "a.bin", b"abc")
    assert (tmp_path / "deep" / "a.bin").read_bytes() == b"abc"
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["a.bin"]


def test_an_old_file_is_replaced(tmp_path):
    for content in (b"old and longer", b"new"):
        write_whole(tmp_path / "a.bin", content)
    assert (tmp_path / "a.bin").read_bytes() == b"new"


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("old", [None, b"old"])
def test_a_failing_disk_leaves_what_was_there(tmp_path, monkeypatch, call, old):
    path = tmp_path / "a.bin"
    if old is not None:
        path.write_bytes(old)

    def failing(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os if call == "fsync" else Path, call, failing)
    with pytest.raises(StoreError, match=r"a\.bin \(1,000 bytes\) .*No space left.*WEIGHTS_DIR"):
        write_whole(path, b"x" * 1000)
    left = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    assert left == ({} if old is None else {"a.bin": old})


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 64 KiB, where this process may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no right to mount a small file system")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_told_and_can_be_used_again(small_disk):
    path = small_disk / "a.bin"
    write_whole(path, b"old")
    with pytest.raises(StoreError, match="No space left on device"):
        write_whole(path, b"x" * 2**20)
    assert path.read_bytes() == b"old"
    assert [p.name for p in small_disk.iterdir()] == ["a.bin"]
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError, match=r"a\.bin .* could not be written"):
        write_whole(tmp_path / "file" / "a.bin", b"x")


def test_two_threads_that_write_the_same_file_at_once_both_leave_it_whole(tmp_path, monkeypatch):
    """Both stand between opening their drafts and moving them when the first one moves."""
    path = tmp_path / "a.bin"
    both, errors, seen = threading.Barrier(2), [], []
    sync = os.fsync

    def together(number):
        sync(number)
        both.wait(10)

    def write(content):
        try:
            write_whole(path, content)
            seen.append(path.read_bytes())
        except (StoreError, OSError) as error:
            errors.append(error)

    monkeypatch.setattr(os, "fsync", together)
    contents = [b"a" * 100_000, b"b" * 50_000]
    threads = [threading.Thread(target=write, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert set(seen) <= set(contents)
    assert path.read_bytes() in contents
    assert len(list(tmp_path.iterdir())) == 1


def test_a_file_is_read_up_to_its_limit(tmp_path):
    path = tmp_path / "a"
    path.write_bytes("äb".encode())
    assert read_text(path, 3) == "äb"
    with pytest.raises(InputError, match="bigger than 2 bytes"):
        read_text(path, 2)


def test_what_is_no_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in ("gone", "pipe", "."):
        with pytest.raises(InputError, match="it cannot be read .*: give a file"):
            read_text(tmp_path / name, 10)


def test_bytes_that_are_no_utf8_are_refused_with_their_place():
    assert utf8("ä\n".encode()) == "ä\n"
    with pytest.raises(InputError, match=r"byte 0xff at offset 4 \(line 3\)"):
        utf8(b"a\nb\n\xff")

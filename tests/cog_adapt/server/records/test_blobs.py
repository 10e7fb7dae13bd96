"""Large texts as files: what is put is read again, and only what nobody names is removed."""

import hashlib
import os
import time
from pathlib import Path

import pytest

from cog_adapt.server.records.blobs import BlobFolder, Blobs

TEXT = "ö" * 50


@pytest.fixture
def blobs(tmp_path):
    return Blobs(BlobFolder(tmp_path / "a" / "blobs"), 100)


def files(tmp_path):
    return sorted(path.name for path in (tmp_path / "a" / "blobs").iterdir())


def make_old(tmp_path, *digests, seconds=1000):
    for digest in digests:
        then = time.time() - seconds
        os.utime(tmp_path / "a" / "blobs" / digest, (then, then))


@pytest.mark.parametrize(
    ("text", "is_large"),
    [
        ("x" * 100, False),
        ("x" * 101, True),
        ("ö" * 50, False),
        ("ö" * 51, True),
        ("\U0001f600" * 25, False),
        ("\U0001f600" * 26, True),
        ("\ud800" * 34, True),
        ("", False),
    ],
)
def test_bytes_are_counted_and_not_characters(blobs, text, is_large):
    assert blobs.is_large(text) is is_large


def test_a_text_is_kept_under_its_digest_alone(blobs, tmp_path):
    digest = blobs.put(TEXT)
    assert digest == hashlib.sha256(TEXT.encode()).hexdigest()
    assert files(tmp_path) == [digest]
    assert blobs.get(digest) == TEXT


def test_half_a_surrogate_pair_comes_back(blobs):
    assert blobs.get(blobs.put("a\ud800b")) == "a\ud800b"


def test_the_folder_is_private_and_may_be_there_already(blobs, tmp_path):
    assert (tmp_path / "a" / "blobs").stat().st_mode & 0o777 == 0o700
    assert Blobs(BlobFolder(tmp_path / "a" / "blobs"), 1).get(blobs.put(TEXT)) == TEXT


def test_what_is_there_is_not_written_again_but_made_young(blobs, tmp_path):
    digest = blobs.put(TEXT)
    path = tmp_path / "a" / "blobs" / digest
    before = path.stat().st_ino
    make_old(tmp_path, digest)
    assert blobs.put(TEXT) == digest
    assert path.stat().st_ino == before
    assert path.stat().st_mtime > time.time() - 100


def test_what_a_power_cut_left_short_is_written_again(blobs, tmp_path):
    digest = blobs.put(TEXT)
    (tmp_path / "a" / "blobs" / digest).write_bytes(b"short")
    assert blobs.get(digest) is None
    assert blobs.put(TEXT) == digest
    assert blobs.get(digest) == TEXT


def test_a_missing_text_is_none(blobs):
    assert blobs.get("0" * 64) is None


def test_a_write_that_fails_leaves_nothing(blobs, tmp_path, monkeypatch):
    def fail(self, target):
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        blobs.put(TEXT)
    assert files(tmp_path) == []


def test_only_old_files_that_no_row_names_are_removed(blobs, tmp_path):
    used, unused, young = (blobs.put(text * 30) for text in "abc")
    make_old(tmp_path, used, unused)
    asked = []

    def find_used(names):
        asked.extend(names)
        return {used}

    assert blobs.sweep(find_used, 500) == 1
    assert sorted(asked) == sorted([used, unused])
    assert files(tmp_path) == sorted([used, young])
    assert blobs.sweep(find_used, 2000) == 0


def test_names_are_asked_for_some_at_once(blobs, tmp_path, monkeypatch):
    monkeypatch.setattr("cog_adapt.server.records.blobs.CHUNK", 2)
    digests = [blobs.put(str(number) * 30) for number in range(5)]
    make_old(tmp_path, *digests)
    asked = []

    def find_used(names):
        asked.append(len(names))
        return set()

    assert blobs.sweep(find_used, 500) == 5
    assert asked == [2, 2, 1]
    assert files(tmp_path) == []


def test_a_file_that_another_server_removed_is_no_error(blobs, tmp_path):
    digest = blobs.put(TEXT)
    make_old(tmp_path, digest)

    def find_used(names):
        (tmp_path / "a" / "blobs" / digest).unlink()
        return set()

    assert blobs.sweep(find_used, 500) == 1


def test_an_owner_writes_what_another_has_written_as_if_nobody_had(blobs, tmp_path):
    """Or the time that it takes would tell."""

    def inode(owner):
        return (tmp_path / "a" / "blobs" / blobs.put(TEXT, owner)).stat().st_ino

    first = inode("ann")
    assert inode("ann") == first
    second = inode("bob")
    assert second != first
    assert inode("bob") == inode("ann") == second


def test_what_was_removed_is_written_again_and_by_each_owner(blobs, tmp_path):
    digest = blobs.put(TEXT, "ann")
    blobs.remove([digest, "f" * 64])
    assert files(tmp_path) == []
    blobs.put(TEXT, "bob")
    before = (tmp_path / "a" / "blobs" / digest).stat().st_ino
    assert blobs.put(TEXT, "ann") == digest
    assert (tmp_path / "a" / "blobs" / digest).stat().st_ino != before

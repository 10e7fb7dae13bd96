"""The store of uploaded files: owners, budgets, expiry."""

import io
import os
import time

import pytest

from cog_adapt.server import uploads as module
from cog_adapt.server.errors import DiskFull
from cog_adapt.server.settings import Settings
from cog_adapt.server.uploads import Uploads, id_in_url


def add(uploads, owner="ada", content=b"content"):
    return uploads.add(
        owner, io.BytesIO(content), name="x", content_type="text/plain", metadata={"a": [1]}
    )


def test_another_server_of_the_folder_reads_the_same(tmp_path):
    made = add(Uploads(tmp_path))
    other = Uploads(tmp_path)
    assert other.get("ada", made.id) == made
    assert other.content(made).read_bytes() == b"content"
    assert other.get("bob", made.id) is None
    assert not other.remove("bob", made.id)


@pytest.mark.parametrize("name", ["", "..", "../x", "file-", "file-" + "0" * 32, "file-\0"])
def test_no_other_text_is_a_file(tmp_path, name):
    assert Uploads(tmp_path).get("ada", name) is None


@pytest.mark.parametrize(
    ("url", "is_ours"),
    [
        ("http://a/v1/files/file-" + "0" * 32, True),
        ("https://a:1/v1/files/file-" + "0" * 32, True),
        ("https://a/v1/files/file-" + "0" * 31, False),
        ("https://a/base/v1/files/file-" + "0" * 32, True),
        ("https://a/?/v1/files/file-" + "0" * 32, False),
        ("https://a/v1/files/file-" + "0" * 32 + "/download", False),
        ("data:,x", False),
    ],
)
def test_an_input_names_a_file_by_its_whole_url(url, is_ours):
    assert (id_in_url(url) is not None) is is_ours


def test_a_file_without_room_is_refused_and_leaves_nothing(tmp_path):
    uploads = Uploads(tmp_path, most=10, share=0.5)
    add(uploads, content=b"12345")
    for owner, size in (("ada", 1), ("bob", 6), ("", 6)):
        with pytest.raises(DiskFull, match="UPLOAD_BYTES"):
            add(uploads, owner, b"x" * size)
    add(uploads, "", b"12345")
    assert sum(path.is_file() for path in tmp_path.rglob("content")) == 2


def test_an_owner_has_a_limited_number_of_files(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST_FILES", 2)
    uploads = Uploads(tmp_path)
    add(uploads)
    add(uploads)
    with pytest.raises(DiskFull, match="2 files"):
        add(uploads)
    add(uploads, "bob")


def test_an_expired_file_is_unknown_at_once_and_removed_later(tmp_path):
    kept, gone = add(Uploads(tmp_path)), add(Uploads(tmp_path, hours=1e-9))
    uploads = Uploads(tmp_path)
    assert [each.id for each in uploads.of_owner("ada")] == [kept.id]
    uploads.prune()
    assert not uploads.content(gone).exists()
    assert uploads.content(kept).exists()


def test_what_was_cut_short_is_removed_after_an_hour(tmp_path):
    uploads = Uploads(tmp_path)
    folder = uploads.content(add(uploads)).parent.parent
    for name, age in (("new-old", 7200), ("new-young", 60)):
        (folder / name).mkdir()
        os.utime(folder / name, (time.time() - age,) * 2)
    uploads.prune()
    assert not (folder / "new-old").exists()
    assert (folder / "new-young").exists()


def test_the_budget_follows_from_the_settings_of_bytes(tmp_path):
    settings = {"data_dir": tmp_path, "disk_bytes": 2**30, "owner_share": 0.25}
    uploads = Uploads.of(Settings(**settings))
    assert (uploads.most_of(""), uploads.most_of("ada")) == (2**30 // 10, 2**30 // 10 // 4)
    assert Uploads.of(Settings(**settings, upload_bytes=8)).most_of("ada") == 2

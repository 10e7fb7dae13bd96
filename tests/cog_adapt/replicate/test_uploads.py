"""The store of uploaded files, in a folder or in PostgreSQL: owners, budgets, expiry."""

import io
import itertools
import os
import time

import pytest

from cog_adapt.server.errors import DiskFull
from cog_adapt.server.files import uploads as module
from cog_adapt.server.files.upload_rows import open_uploads, uploads_of
from cog_adapt.server.files.uploads import PORTION, Uploads, id_in_url
from cog_adapt.server.records.database import open_database
from cog_adapt.server.settings import Settings


@pytest.fixture(params=["folder", "postgresql"])
def server(request, tmp_path):
    """Makes the uploads of one more server; those of PostgreSQL have no folder in common."""
    if request.param == "folder":
        return lambda **limits: open_uploads(tmp_path, None, **limits)
    url, number = request.getfixturevalue("cluster").empty(), itertools.count()
    open_database(url, tmp_path).dispose()
    return lambda **limits: open_uploads(tmp_path / str(next(number)), url, **limits)


def read(uploads, upload):
    with uploads.open(upload) as file:
        return file.read()


def add(uploads, owner="ada", content=b"content"):
    return uploads.add(
        owner, io.BytesIO(content), name="x", content_type="text/plain", metadata={"a": [1]}
    )


@pytest.mark.parametrize("size", [0, 7, PORTION, 2 * PORTION + 1])
def test_another_server_reads_the_same(server, size):
    content = (b"content" * size)[:size]
    made, other = add(server(), content=content), server()
    assert other.get("ada", made.id) == made
    assert read(other, made) == content
    assert other.get("bob", made.id) is None
    assert not other.remove("bob", made.id)
    assert other.remove("ada", made.id)
    assert server().get("ada", made.id) is None
    if size:
        with pytest.raises(FileNotFoundError):
            server().open(made)


@pytest.mark.parametrize("name", ["", "..", "../x", "file-", "file-" + "0" * 32, "file-\0"])
def test_no_other_text_is_a_file(server, name):
    assert server().get("ada", name) is None


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


def test_a_file_without_room_is_refused_and_leaves_nothing(server):
    add(server(most=10, share=0.5), content=b"12345")
    uploads = server(most=10, share=0.5)
    for owner, size in (("ada", 1), ("bob", 6), ("", 6)):
        with pytest.raises(DiskFull, match="UPLOAD_BYTES"):
            add(uploads, owner, b"x" * size)
    add(uploads, "", b"12345")
    assert server().used() == 10


def test_an_owner_has_a_limited_number_of_files(server, monkeypatch):
    monkeypatch.setattr(module, "MOST_FILES", 2)
    add(server())
    add(server())
    with pytest.raises(DiskFull, match="2 files"):
        add(server())
    add(server(), "bob")
    assert server().remove_all("ada") == 2
    add(server())


def test_an_expired_file_is_unknown_at_once_and_removed_later(server):
    kept, gone = add(server()), add(server(hours=1e-9))
    uploads = server()
    assert [each.id for each in uploads.of_owner("ada")] == [kept.id]
    assert uploads.get("ada", gone.id) is None
    uploads.prune()
    assert uploads.used() == len(read(uploads, kept))


def test_what_was_cut_short_is_removed_after_an_hour(tmp_path):
    uploads = Uploads(tmp_path)
    made = add(uploads)
    (folder,) = tmp_path.iterdir()
    for name, age in (("new-old", 7200), ("new-young", 60)):
        (folder / name).mkdir()
        os.utime(folder / name, (time.time() - age,) * 2)
    uploads.prune()
    assert not (folder / "new-old").exists()
    assert (folder / "new-young").exists()
    assert read(uploads, made) == b"content"


def test_what_is_cut_short_in_postgresql_is_unknown_and_goes_after_an_hour(cluster, tmp_path):
    url = cluster.empty()
    engine = open_database(url, tmp_path)
    uploads = open_uploads(tmp_path, url, hours=24)
    young, old = add(uploads), add(uploads)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE uploads SET is_whole = false")
        query = "UPDATE uploads SET expires_at = expires_at - interval '2 hours' WHERE id = %s"
        connection.exec_driver_sql(query, (old.id,))
    assert uploads.of_owner("ada") == []
    assert uploads.get("ada", young.id) is None
    uploads.prune()
    assert uploads.used() == young.size
    engine.dispose()


def test_a_file_of_an_earlier_release_is_found_until_it_expires(cluster, tmp_path):
    made, url = add(Uploads(tmp_path)), cluster.empty()
    open_database(url, tmp_path).dispose()
    uploads = open_uploads(tmp_path, url)
    assert uploads.get("ada", made.id) == made
    assert uploads.of_owner("ada") == [made]
    assert read(uploads, made) == b"content"
    assert uploads.remove("ada", made.id)
    assert Uploads(tmp_path).get("ada", made.id) is None


def test_the_budget_follows_from_the_settings_of_bytes(tmp_path):
    settings = {"data_dir": tmp_path, "disk_bytes": 2**30, "owner_share": 0.25}
    uploads = uploads_of(Settings(**settings))
    assert (uploads.most_of(""), uploads.most_of("ada")) == (2**30 // 10, 2**30 // 10 // 4)
    assert uploads_of(Settings(**settings, upload_bytes=8)).most_of("ada") == 2

"""A folder holds an adapter's file and what is known of it, and old files are taken in."""

import json

import pytest

from cog_adapt.runner.errors import StoreError, WeightsError
from cog_adapt.runner.storage.folder import Folder, checked_content
from cog_adapt.runner.storage.index import place_of
from cog_adapt.runner.storage.metadata import describe
from tests.cog_adapt.runner.storage.made import adapter_of

ADAPTER = adapter_of(1)
KEY = (place_of("ann"), ADAPTER.id)


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path / "adapters")


def test_a_place_is_a_digest_that_can_be_a_folder():
    assert place_of("") == ""
    assert len(place_of("../../etc")) == 32
    assert place_of("ann") != place_of("Ann")


def test_an_owners_files_lie_in_a_folder_of_the_owners(folder):
    path = folder.write(KEY, ADAPTER.to_bytes())
    folder.write_metadata(KEY, describe(ADAPTER, size=100, owner="ann"))
    assert path == folder.root / "owners" / KEY[0] / f"{KEY[1]}.safetensors"
    assert [*folder.places()] == ["", KEY[0]]
    assert ({*folder.times(KEY[0])}, folder.times("")) == ({KEY[1]}, {})
    assert folder.holds(KEY)
    assert checked_content(folder.read(KEY), KEY[1]).id == KEY[1]
    assert folder.read_metadata(KEY, None).owner == "ann"
    folder.remove(KEY)
    folder.remove(KEY)
    assert folder.times(KEY[0]) == {}


def test_an_adapter_from_before_there_was_metadata_is_taken_in(folder):
    content = ADAPTER.to_bytes()
    folder.write(KEY, content)
    known = folder.read_metadata(KEY, "ann")
    assert (known.owner, known.labels, known.base) == ("ann", ("a", "b"), "0" * 16)
    assert (known.bytes, known.tensors, known.recipe) == (len(content), 1, {"method": "head"})
    assert folder.read_metadata(KEY, None).owner == f"sha256:{KEY[0]}"
    folder.write(("", KEY[1]), content)
    assert folder.read_metadata(("", KEY[1]), None).owner == ""


@pytest.mark.parametrize("damage", [b"", b"{}", b"[1]"])
def test_damaged_metadata_is_read_from_the_file_again(folder, damage):
    path = folder.write(KEY, ADAPTER.to_bytes())
    path.with_suffix(".json").write_bytes(damage)
    assert folder.read_metadata(KEY, "ann").labels == ("a", "b")


def test_metadata_of_another_owner_or_adapter_does_not_count(folder):
    folder.write(KEY, ADAPTER.to_bytes())
    folder.write_metadata(KEY, describe(ADAPTER, size=100, owner="bob"))
    assert folder.read_metadata(KEY, "ann").owner == "ann"


@pytest.mark.parametrize("content", [b"", b"hello", b"\xff" * 100, b"\2\0\0\0\0\0\0\0{}"])
def test_a_file_that_is_no_adapter_is_not_taken_in(folder, content):
    folder.write(KEY, content)
    assert folder.read_metadata(KEY, "ann") is None


@pytest.mark.parametrize("header", ['{"labels": 3, "method": "", "base": ""}', "[]", "3"])
def test_a_file_with_a_wrong_header_is_not_taken_in(folder, header):
    text = json.dumps({"__metadata__": {"cog-adapt/1": header}}).encode()
    folder.write(KEY, len(text).to_bytes(8, "little") + text)
    assert folder.read_metadata(KEY, "ann") is None


def test_content_of_another_digest_is_refused():
    with pytest.raises(WeightsError, match=f"{'f' * 16} is damaged: its file has the digest"):
        checked_content(ADAPTER.to_bytes(), "f" * 16)


def test_the_last_versions_of_names_are_kept_beside_them(folder):
    assert folder.read_versions(KEY[0]) == {}
    folder.write_versions(KEY[0], {"support": 3})
    assert folder.read_versions(KEY[0]) == {"support": 3}
    assert folder.times(KEY[0]) == {}


def test_what_cannot_be_read_or_removed_is_said(folder):
    with pytest.raises(WeightsError, match="cannot be read"):
        folder.read(KEY)
    folder.path(KEY).mkdir(parents=True)
    with pytest.raises(StoreError, match="could not be removed"):
        folder.remove_content(KEY)

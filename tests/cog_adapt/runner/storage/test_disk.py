"""The disk holds bytes: unpinned, unnamed adapters make room, the longest unused first."""

from dataclasses import replace

import pytest

from cog_adapt.runner.errors import StoreError
from cog_adapt.runner.storage.disk import Disk
from cog_adapt.runner.storage.index import Index
from cog_adapt.runner.storage.metadata import describe
from tests.cog_adapt.runner.storage.made import adapter_of


@pytest.fixture
def index():
    return Index()


@pytest.fixture
def disk(index):
    disk = Disk(1000, 600)
    for place, number in (("a", 1), ("b", 2), ("a", 3), ("b", 4)):
        add(disk, index, (place, str(number)), 200, f"2026-01-0{number}")
    return disk


def add(disk, index, key, size, used_at, **known):
    metadata = describe(adapter_of(0), size=size, owner=key[0])
    index[key] = replace(metadata, id=key[1], used_at=used_at, **known)
    disk.add(key, size)


def test_nobody_goes_while_there_is_room(disk, index):
    assert disk.make_room(("c", "9"), 200, index, index.get) == []
    assert disk.bytes == 800


def test_the_longest_unused_of_all_goes_first(disk, index):
    assert disk.make_room(("c", "9"), 500, index, index.get) == [("a", "1"), ("b", "2")]


def test_an_owner_over_its_quota_loses_its_own_first(disk, index):
    assert disk.make_room(("b", "9"), 400, index, index.get) == [("b", "2")]
    assert disk.make_room(("b", "9"), 600, index, index.get) == [("b", "2"), ("b", "4")]


def test_pinned_and_named_ones_stay(disk, index):
    index["a", "1"] = replace(index["a", "1"], pinned=True)
    index["b", "2"] = replace(index["b", "2"], name="support")
    assert disk.make_room(("c", "9"), 300, index, index.get) == [("a", "3")]
    with pytest.raises(StoreError, match=r"budget for adapters \(1,000 bytes, 600 an owner\) is"):
        disk.make_room(("a", "9"), 401, index, index.get)


def test_one_that_never_fits_is_refused_in_words(disk, index):
    with pytest.raises(StoreError, match="has 601 bytes; an owner's adapters may have 600 on disk"):
        disk.make_room(("c", "9"), 601, index, index.get)

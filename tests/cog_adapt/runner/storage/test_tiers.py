"""Tensors move between memory and disk by themselves, within both budgets."""

import pytest

from cog_adapt.runner.errors import AdapterNotFound, StoreError, WeightsError
from cog_adapt.runner.storage.budgets import StorageBudgets
from cog_adapt.runner.storage.folder import Folder
from cog_adapt.runner.storage.index import Index
from cog_adapt.runner.storage.metadata import describe
from cog_adapt.runner.storage.remote import Remote
from cog_adapt.runner.storage.tiers import Tiers
from tests.cog_adapt.runner.storage.made import adapter_of

ADAPTERS = [adapter_of(number) for number in range(4)]
SIZE, FILE = ADAPTERS[0].nbytes, len(ADAPTERS[0].to_bytes())


@pytest.fixture
def index():
    return Index()


def tiers_of(tmp_path, memory=2 * SIZE, disk=3 * FILE, remote=None):
    return Tiers(Folder(tmp_path / "near"), StorageBudgets(memory, memory, disk, disk), remote)


def write(tiers, index, number):
    adapter = ADAPTERS[number]
    path, gone = tiers.write(("", adapter.id), adapter, adapter.to_bytes(), index)
    index["", adapter.id] = describe(adapter, size=FILE, owner="")
    for key in gone:
        del index[key]
    return path


def numbers(tiers, *names):
    return tuple(tiers.gauges()[f"adapters_{name}"] for name in names)


def test_what_memory_lets_go_comes_back_from_the_disk(tmp_path, index):
    tiers = tiers_of(tmp_path)
    for number in range(3):
        write(tiers, index, number)
    key = ("", ADAPTERS[0].id)
    assert tiers.recent(key) is None
    adapter, gone = tiers.read(key, index)
    assert (adapter.id, gone) == (key[1], ())
    assert tiers.recent(key) is adapter
    assert numbers(tiers, "memory_bytes", "memory_entries") == (2 * SIZE, 2)
    assert numbers(tiers, "disk_bytes", "disk_entries") == (3 * FILE, 3)
    assert numbers(tiers, "memory_hits", "memory_misses", "disk_hits") == (1, 1, 1)


def test_what_the_disk_lets_go_is_gone_from_memory_too(tmp_path, index):
    tiers = tiers_of(tmp_path, memory=10 * SIZE)
    paths = [write(tiers, index, number) for number in range(4)]
    assert [path.exists() for path in paths] == [False, True, True, True]
    key = ("", ADAPTERS[0].id)
    assert tiers.recent(key) is None
    with pytest.raises(AdapterNotFound):
        tiers.read(key, index)


def test_a_disk_that_is_too_small_leaves_it_in_memory(tmp_path, index):
    tiers = tiers_of(tmp_path, disk=FILE - 1)
    with pytest.raises(StoreError, match="an owner's adapters may have"):
        write(tiers, index, 0)
    assert tiers.recent(("", ADAPTERS[0].id)) is ADAPTERS[0]
    assert numbers(tiers, "disk_bytes") == (0,)


def test_what_fails_to_be_written_takes_no_room(tmp_path, index):
    (tmp_path / "near").write_text("no folder")
    tiers = tiers_of(tmp_path)
    with pytest.raises(StoreError):
        write(tiers, index, 0)
    assert numbers(tiers, "disk_bytes", "disk_entries") == (0, 0)


def test_a_file_of_other_content_is_refused(tmp_path, index):
    tiers = tiers_of(tmp_path, memory=0)
    write(tiers, index, 0).write_bytes(ADAPTERS[1].to_bytes())
    with pytest.raises(WeightsError, match="is damaged"):
        tiers.read(("", ADAPTERS[0].id), index)


def test_what_is_far_away_is_served_though_the_disk_has_no_room(tmp_path, index, caplog):
    pytest.importorskip("obstore", reason="obstore is not installed")
    remote = Remote(f"file://{tmp_path}/far")
    key = ("", ADAPTERS[0].id)
    remote.write(key, ADAPTERS[0].to_bytes())
    tiers = tiers_of(tmp_path, disk=FILE - 1, remote=remote)
    adapter, _ = tiers.read(key, index)
    assert adapter.id == key[1]
    assert "stays in ADAPTER_STORE alone" in caplog.text
    with pytest.raises(AdapterNotFound):
        tiers.read(("", ADAPTERS[1].id), index)
    assert numbers(tiers, "remote_hits", "remote_misses") == (1, 1)


def test_to_forget_removes_every_copy(tmp_path, index):
    pytest.importorskip("obstore", reason="obstore is not installed")
    remote = Remote(f"file://{tmp_path}/far")
    tiers = tiers_of(tmp_path, remote=remote)
    key = ("", ADAPTERS[0].id)
    write(tiers, index, 0)
    tiers.write_through(key)
    assert remote.holds(key)
    tiers.forget(key)
    assert not remote.holds(key)
    assert tiers.recent(key) is None
    assert not tiers.folder.holds(key)

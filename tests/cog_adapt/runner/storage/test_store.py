"""Adapters are stored by their content's id, and known even where the disk is full."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch

from cog_adapt.runner.errors import AdapterNotFound, InputError, StoreError, WeightsError
from cog_adapt.runner.storage import folder as folder_module
from cog_adapt.runner.storage.budgets import StorageBudgets
from cog_adapt.runner.storage.folder import Folder
from cog_adapt.runner.storage.known import KnownAdapters
from cog_adapt.runner.storage.store import AdapterStore
from tests.cog_adapt.runner.storage.made import adapter_of


def test_an_adapter_comes_back_from_the_disk(tmp_path):
    adapter = adapter_of(1)
    path = AdapterStore(tmp_path / "adapters").put(adapter)
    assert path.name == f"{adapter.id}.safetensors"
    found = AdapterStore(tmp_path / "adapters").get(adapter.id)
    assert found.id == adapter.id
    assert torch.equal(found.tensors["head.weight"], adapter.tensors["head.weight"])
    assert found.labels == ("a", "b")


def test_the_same_content_is_written_once(tmp_path):
    store = AdapterStore(tmp_path)
    first = store.put(adapter_of(1)).stat().st_ino
    assert store.put(adapter_of(1)).stat().st_ino == first
    assert len(list(tmp_path.glob("*.safetensors"))) == 1


def test_an_id_names_no_file_outside_the_folder(tmp_path):
    path = AdapterStore(tmp_path).put(adapter_of(1))
    (tmp_path / "inner").mkdir()
    with pytest.raises(InputError, match="is not known here"):
        AdapterStore(tmp_path / "inner").get(f"../{path.stem}")


def test_a_damaged_file_is_told(tmp_path):
    path = AdapterStore(tmp_path).put(adapter_of(1))
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(WeightsError, match="is no safetensors file"):
        AdapterStore(tmp_path).get(path.stem)


def test_an_adapter_is_known_though_the_disk_is_full(tmp_path, monkeypatch):
    def full(path, content):
        raise StoreError("full")

    monkeypatch.setattr(folder_module, "write_whole", full)
    store, adapter = AdapterStore(tmp_path), adapter_of(1)
    with pytest.raises(StoreError, match="full"):
        store.put(adapter)
    assert store.get(adapter.id) is adapter


def test_only_the_newest_adapters_are_kept_in_memory(tmp_path):
    size = adapter_of(1).nbytes
    store = AdapterStore(tmp_path, StorageBudgets(2 * size, 2 * size, 2**40, 2**40))
    adapters = [adapter_of(number) for number in range(3)]
    for adapter in adapters:
        store.put(adapter).unlink()
    assert store.get(adapters[2].id) is adapters[2]
    with pytest.raises(AdapterNotFound, match="is not known here"):
        store.get(adapters[0].id)


PAST, LONG_AGO = "2000-01-01T00:00:00+00:00", "2020-01-01T00:00:00.000000+00:00"


def budgets(disk=2**40, of_owner=2**40, days=0):
    return StorageBudgets(0, 0, disk, of_owner, days)


def changed(store, adapter, **values):
    store.change(adapter.id, "ann", lambda known, _: replace(known, **values))


def known_to(store, owner="ann"):
    return [known.id for known in store.describe(owner)]


def test_an_owners_quota_holds_and_others_keep_theirs(tmp_path):
    size = len(adapter_of(1).to_bytes())
    store = AdapterStore(tmp_path, budgets(of_owner=2 * size))
    store.put(adapter_of(9), "bob")
    adapters = [adapter_of(number) for number in range(4)]
    for adapter in adapters:
        store.put(adapter, "ann")
    assert known_to(store) == [adapter.id for adapter in adapters[2:]]
    assert known_to(store, "bob") == [adapter_of(9).id]
    assert len([*tmp_path.rglob("*.safetensors")]) == len([*tmp_path.rglob("*.json")]) == 3


def test_a_use_saves_an_adapter_and_a_pin_or_a_name_keeps_it(tmp_path):
    size = len(adapter_of(1).to_bytes())
    store = AdapterStore(tmp_path, budgets(disk=3 * size))
    adapters = [adapter_of(number) for number in range(5)]
    for adapter in adapters[:3]:
        store.put(adapter, "ann")
    changed(store, adapters[0], pinned=True)
    store.get(adapters[1].id, "ann")
    store.put(adapters[3], "ann")
    assert known_to(store) == [adapters[number].id for number in (0, 1, 3)]
    changed(store, adapters[1], name="x", version=1)
    changed(store, adapters[3], name="x", version=2)
    with pytest.raises(StoreError, match="is full of pinned and named ones. Remove some"):
        store.put(adapters[4], "ann")
    assert known_to(store) == [adapters[number].id for number in (0, 1, 3)]


def test_expired_and_long_unused_ones_go_by_themselves(tmp_path):
    store = AdapterStore(tmp_path, budgets(days=90))
    adapters = [adapter_of(number) for number in range(4)]
    for adapter in adapters:
        store.put(adapter, "ann")
    changed(store, adapters[0], expires_at=PAST, pinned=True)
    changed(store, adapters[1], used_at=LONG_AGO)
    changed(store, adapters[2], used_at=LONG_AGO, pinned=True)
    with pytest.raises(AdapterNotFound):
        store.get(adapters[0].id, "ann")
    AdapterStore(tmp_path, budgets(days=90)).put(adapter_of(9), "ann")
    assert not [*tmp_path.rglob(f"{adapters[1].id}*")]
    assert {*known_to(store)} == {each.id for each in (*adapters[2:], adapter_of(9))}
    assert not [*tmp_path.rglob(f"{adapters[0].id}*")]


def test_the_same_content_is_another_owners_own(tmp_path):
    store = AdapterStore(tmp_path)
    store.put(adapter_of(1), "ann")
    with pytest.raises(AdapterNotFound):
        store.get(adapter_of(1).id, "bob")
    store.put(adapter_of(1), "bob")
    store.remove(adapter_of(1).id, "ann")
    assert store.get(adapter_of(1).id, "bob").id == adapter_of(1).id


def test_bytes_on_disk_are_counted_again_after_a_restart(tmp_path):
    AdapterStore(tmp_path).put(adapter_of(1), "ann")
    store = AdapterStore(tmp_path)
    assert store.gauges()["adapters_disk_bytes"] == len(adapter_of(1).to_bytes())
    assert known_to(store) == [adapter_of(1).id]


def test_uses_are_counted_but_not_those_of_a_download(tmp_path):
    store = AdapterStore(tmp_path)
    store.put(adapter_of(1), "ann")
    store.get(adapter_of(1).id, "ann")
    store.peek(adapter_of(1).id, "ann")
    assert store.known(adapter_of(1).id, "ann").hits == 1
    store.close()
    assert AdapterStore(tmp_path).known(adapter_of(1).id, "ann").hits == 1


def test_many_threads_put_get_and_remove(tmp_path):
    size = len(adapter_of(1).to_bytes())
    store = AdapterStore(tmp_path, StorageBudgets(200, 100, 40 * size, 10 * size))
    adapters = [adapter_of(number) for number in range(8)]

    def work(owner):
        for _ in range(5):
            for adapter in adapters:
                store.put(adapter, owner)
                assert store.get(adapter.id, owner).id == adapter.id
            store.remove(adapters[0].id, owner)
        return known_to(store, owner)

    with ThreadPoolExecutor(4) as pool:
        left = [*pool.map(work, "abcd")]
    assert store.gauges()["adapters_disk_bytes"] == 4 * 7 * size
    assert store.gauges()["adapters_memory_bytes"] <= 200
    assert all(adapters[0].id not in ids for ids in left)


def test_an_adapter_that_is_removed_while_it_is_used_costs_no_answer(tmp_path, monkeypatch):
    store, adapter = AdapterStore(tmp_path), adapter_of(1)
    store.put(adapter, "ann")
    find, note_use = KnownAdapters.find, KnownAdapters.note_use

    def removed_once_read(known, key):
        store.remove(adapter.id, "ann")
        note_use(known, key)

    def removed_once_found(known, reference, asker):
        key = find(known, reference, asker)
        store.remove(adapter.id, "ann")
        return key

    with monkeypatch.context() as patched:
        patched.setattr(KnownAdapters, "note_use", removed_once_read)
        assert store.get(adapter.id, "ann").id == adapter.id
    for use in (store.known, store.get, store.peek):
        store.put(adapter, "ann")
        with monkeypatch.context() as patched:
            patched.setattr(KnownAdapters, "find", removed_once_found)
            with pytest.raises(AdapterNotFound):
                use(adapter.id, "ann")


def test_an_adapter_that_is_removed_while_its_file_is_read_is_not_answered(tmp_path, monkeypatch):
    adapter = adapter_of(1)
    AdapterStore(tmp_path).put(adapter, "ann")
    store, read = AdapterStore(tmp_path), Folder.read

    def removed_once_read(folder, key):
        content = read(folder, key)
        store.remove(adapter.id, "ann")
        return content

    monkeypatch.setattr(Folder, "read", removed_once_read)
    with pytest.raises(AdapterNotFound):
        store.get(adapter.id, "ann")
    assert store.gauges()["adapters_memory_entries"] == 0


def test_threads_that_keep_use_and_remove_the_same_adapter_see_it_or_not(tmp_path):
    store, adapter = AdapterStore(tmp_path), adapter_of(1)

    def often(number):
        use = (store.put, store.get, store.known, store.remove)[number]
        for _ in range(300):
            try:
                use(adapter if number == 0 else adapter.id, "ann")
            except AdapterNotFound:
                continue
            store.describe("ann")

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(often, range(4))) == [None] * 4

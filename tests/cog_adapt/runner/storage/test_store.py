"""Adapters are stored by their content's id, and known even where the disk is full."""

import pytest
import torch

from cog_adapt.runner.adapters import Adapter
from cog_adapt.runner.errors import AdapterNotFound, InputError, StoreError, WeightsError
from cog_adapt.runner.storage import folder as folder_module
from cog_adapt.runner.storage.budgets import Budgets
from cog_adapt.runner.storage.store import AdapterStore


def adapter_of(number):
    return Adapter({"head.weight": torch.full((2, 3), float(number))}, ("a", "b"), "head", "0" * 16)


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


@pytest.mark.parametrize("adapter_id", ["0" * 16, "nothing", "../../etc/passwd", "", "A" * 16])
def test_an_unknown_id_is_refused(tmp_path, adapter_id):
    with pytest.raises(InputError, match="is not known here; an id has 16 hex digits"):
        AdapterStore(tmp_path).get(adapter_id)


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
    store = AdapterStore(tmp_path, Budgets(2 * size, 2 * size, 2**40, 2**40))
    adapters = [adapter_of(number) for number in range(3)]
    for adapter in adapters:
        store.put(adapter).unlink()
    assert store.get(adapters[2].id) is adapters[2]
    with pytest.raises(AdapterNotFound, match="is not known here"):
        store.get(adapters[0].id)

"""An adapter is its owner's: described, named, shared, exported, removed, and nobody else's."""

import json

import pytest
from torch import nn

from cog_adapt.adapter_metadata import Provenance
from cog_adapt.runner.config import Recipe
from cog_adapt.runner.errors import AdapterNotFound, InputError, StoreError
from cog_adapt.runner.modules.adapters import load_adapter
from cog_adapt.runner.storage.adapter_files import AdapterFiles
from cog_adapt.runner.storage.catalog import Adapters
from cog_adapt.runner.storage.decisions import Decision
from cog_adapt.runner.storage.lora_files import LoRAFiles
from cog_adapt.runner.storage.peft_format import PeftFormat
from cog_adapt.runner.storage.store import AdapterStore
from tests.cog_adapt.models import Letters, examples
from tests.cog_adapt.runner.storage.made import adapter_of

KEYS = {
    *("id", "owner", "name", "version", "notes", "created_at", "used_at", "hits", "expires_at"),
    *("pinned", "shared", "recipe", "examples", "examples_digest", "labels", "score_before"),
    *("score_after", "parent", "base", "versions", "bytes", "tensors"),
}


@pytest.fixture
def store(tmp_path):
    return AdapterStore(tmp_path / "adapters")


@pytest.fixture
def adapters(store):
    return adapters_of(store)


def adapters_of(store):
    peft = PeftFormat(nn.ModuleDict({"head": nn.Linear(3, 2, bias=False)}), "0" * 16, r"head\..*")
    files = AdapterFiles(lambda adapter: adapter, peft, LoRAFiles(peft))
    return Adapters(store, files, store.decisions.drop_key)


def put(store, number, owner="ann", **made):
    adapter = adapter_of(number)
    store.put(adapter, owner, Provenance(**made))
    return adapter.id


def test_metadata_has_every_key_of_the_protocol_and_is_plain_json(store, adapters):
    put(store, 1)
    (known,) = adapters.describe("ann")
    assert set(known) == KEYS
    assert json.loads(json.dumps(known)) == known


def test_an_owner_sees_its_own_adapters_and_none_sees_all(store, adapters):
    mine, other = put(store, 1), put(store, 2, "bob")
    assert [known["id"] for known in adapters.describe("ann")] == [mine]
    assert [known["owner"] for known in adapters.describe(None)] == ["ann", "bob"]
    assert [known["id"] for known in adapters.describe("bob")] == [other]
    assert adapters.describe("eve") == adapters.describe("") == []


def test_the_metadata_of_another_process_is_taken_over_and_its_removal_too(store, tmp_path):
    changed = []
    adapter_id = put(store, 1)
    other = AdapterStore(tmp_path / "adapters")
    here, there = adapters_of(store), adapters_of(other)
    assert [known["id"] for known in there.describe("ann")] == [adapter_id]
    there.watch(lambda *change: changed.append(change))
    there.note("ann", adapter_id, here.change("ann", adapter_id, {"notes": "the best"}))
    assert there.describe("ann")[0]["notes"] == "the best"
    assert changed == []
    here.remove("ann", adapter_id)
    there.note("ann", adapter_id, None)
    assert there.describe("ann") == []
    with pytest.raises(AdapterNotFound):
        other.get(adapter_id, "ann")
    assert changed == [("ann", adapter_id, None)]


def test_an_adapter_is_given_away_once_and_not_to_an_owner_who_has_it(store, adapters):
    adapter_id = put(store, 1)
    put(store, 1, "bob")
    with pytest.raises(InputError, match=f"'bob' has adapter {adapter_id} already. Remove one"):
        adapters.change("ann", adapter_id, {"owner": "bob"})
    adapters.remove("bob", adapter_id)
    given = adapters.change("ann", adapter_id, {"owner": "bob"})
    assert (given["owner"], given["name"]) == ("bob", None)
    assert adapters.describe("ann") == []
    assert [known["id"] for known in adapters.describe("bob")] == [adapter_id]
    assert store.get(adapter_id, "bob").id == adapter_id


def test_a_folder_that_cannot_be_written_is_named_with_the_setting(tmp_path):
    store = AdapterStore(tmp_path / "adapters")
    adapter_id = put(store, 1)
    (tmp_path / "adapters").rename(tmp_path / "away")
    (tmp_path / "adapters").write_text("a file, where the folder was")
    with pytest.raises(StoreError, match="Make the folder of WEIGHTS_DIR writable"):
        adapters_of(store).change("ann", adapter_id, {"notes": "new"})


def refusals(adapters, tmp_path, adapter_id):
    calls = (
        lambda: adapters.export("bob", adapter_id, "safetensors", tmp_path),
        lambda: adapters.change("bob", adapter_id, {"name": "mine"}),
        lambda: adapters.remove("bob", adapter_id),
    )
    for call in calls:
        with pytest.raises(AdapterNotFound) as caught:
            call()
        yield str(caught.value).replace(adapter_id, "ID")


def test_anothers_adapter_is_not_found_in_the_words_for_an_unknown_one(store, adapters, tmp_path):
    theirs = [*refusals(adapters, tmp_path, put(store, 1))]
    assert theirs == [*refusals(adapters, tmp_path, "f" * 16)]
    assert AdapterNotFound.caller_error is True


def test_a_version_is_never_given_twice(store, adapters, tmp_path):
    first, second, third = (put(store, number) for number in range(3))
    adapters.change("ann", first, {"name": "support"})
    adapters.change("ann", second, {"name": "support"})
    adapters.remove("ann", second)
    again = adapters_of(AdapterStore(tmp_path / "adapters"))
    assert again.change("ann", third, {"name": "support"})["version"] == 3


def test_a_name_given_twice_stays_and_null_takes_it_off(store, adapters):
    known = put(store, 1)
    assert adapters.change("ann", known, {"name": "support"})["version"] == 1
    assert adapters.change("ann", known, {"name": "support", "notes": "x"})["version"] == 1
    changed = adapters.change("ann", known, {"name": None})
    assert (changed["name"], changed["version"], changed["notes"]) == (None, None, "x")
    with pytest.raises(AdapterNotFound):
        store.get("support", "ann")


def test_sharing_is_on_purpose_with_owners_or_with_everybody(store, adapters):
    known = put(store, 1)
    adapters.change("ann", known, {"name": "support", "shared": ["bob"]})
    assert store.get("support", "bob").id == store.get(known, "bob").id == known
    with pytest.raises(AdapterNotFound):
        store.get(known, "eve")
    adapters.change("ann", known, {"shared": ["*"]})
    assert store.get("support@v1", "eve").id == known
    with pytest.raises(AdapterNotFound):
        adapters.remove("bob", known)
    adapters.change("ann", known, {"shared": []})
    with pytest.raises(AdapterNotFound):
        store.get(known, "bob")
    adapters.remove("ann", known)
    with pytest.raises(AdapterNotFound):
        store.get(known, "bob")


def test_removing_a_parent_says_who_came_from_it(store, adapters, tmp_path):
    parent = put(store, 1)
    child = put(store, 2, parent=parent)
    put(store, 3, "bob", parent=parent)
    assert adapters.remove("ann", parent) == {"removed": True, "children": [child]}
    with pytest.raises(AdapterNotFound):
        store.get(parent, "ann")
    assert not list((tmp_path / "adapters").rglob(f"{parent}*"))
    assert store.get(child, "ann").id == child


def test_a_watcher_hears_of_each_change(store, adapters):
    heard = []
    adapters.watch(lambda *change: heard.append(change))
    known = put(store, 1)
    adapters.change("ann", known, {"pinned": True})
    adapters.remove("ann", known)
    owners, ids, metadata = zip(*heard, strict=True)
    assert {*owners} == {"ann"}
    assert {*ids} == {known}
    assert [each and each["pinned"] for each in metadata] == [False, True, None]


def test_an_exported_file_is_the_adapter(store, adapters, tmp_path):
    known = put(store, 1)
    path = adapters.export("ann", known, "safetensors", tmp_path / "out")
    assert path.parent == tmp_path / "out"
    assert load_adapter(path).id == known
    with pytest.raises(InputError, match="format is 'gguf'; allowed: safetensors, peft, "):
        adapters.export("ann", known, "gguf", tmp_path)


def test_the_receipt_of_ones_own_adapter_is_exported_and_of_no_other(store, adapters, tmp_path):
    known, sent = put(store, 1), put(store, 2)
    store.decisions.keep("ann", Decision("a" * 32, "b" * 16, known, {}, {"format": "x"}))
    path = adapters.export("ann", known, "receipt", tmp_path)
    assert path.name == f"{known}.receipt.json"
    assert json.loads(path.read_text()) == {"format": "x"}
    adapters.change("ann", known, {"shared": ["bob"]})
    for owner, adapter_id in (("ann", sent), ("bob", known)):
        with pytest.raises(InputError, match="has no receipt here"):
            adapters.export(owner, adapter_id, "receipt", tmp_path)
    with pytest.raises(AdapterNotFound):
        adapters.export("eve", known, "receipt", tmp_path)


def test_what_was_decided_without_an_adapter_can_be_forgotten(store, adapters):
    for key in ("a" * 32, "b" * 32):
        store.decisions.keep("ann", Decision(key, "b" * 16, None, {}))
    adapters.forget("ann", "a" * 32)
    assert store.decisions.find("ann", "a" * 32) is None
    assert store.decisions.find("ann", "b" * 32)
    adapters.forget("ann")
    assert store.decisions.find("ann", "b" * 32) is None


def test_a_taken_file_is_the_takers(store, adapters, tmp_path):
    path = adapters.export("ann", put(store, 1), "safetensors", tmp_path)
    taken = adapters.take("bob", path)
    assert taken["owner"] == "bob"
    assert taken["labels"] == ["a", "b"]
    assert store.get(taken["id"], "bob").id == taken["id"]


def test_pefts_format_goes_out_and_comes_in(store, adapters, tmp_path):
    known = put(store, 1)
    path = adapters.export("ann", known, "peft", tmp_path)
    assert path.name == f"{known}.zip"
    assert adapters.take("bob", path)["id"] == known


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04nothing"])
def test_a_file_that_is_no_adapter_is_refused(adapters, tmp_path, content):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(InputError, match="the file "):
        adapters.take("ann", tmp_path / "file")
    with pytest.raises(InputError, match="the file cannot be read"):
        adapters.take("ann", tmp_path / "nothing")


def test_what_cannot_be_written_is_a_store_error(store, adapters, tmp_path):
    known = put(store, 1)
    (tmp_path / "out").write_text("no folder")
    with pytest.raises(StoreError):
        adapters.export("ann", known, "safetensors", tmp_path / "out")


def test_a_runner_has_adapters_and_an_upload_must_fit_its_base(make_runner, tmp_path):
    runner = make_runner(Letters())
    assert hasattr(type(runner), "adapters")
    made = runner.adapt(examples("letters"), Recipe("head", max_steps=1)).adapter
    runner.store.put(made, "ann")
    path = runner.adapters.export("ann", made.id, "safetensors", tmp_path)
    assert runner.adapters.take("bob", path)["base"] == runner.base
    path.write_bytes(adapter_of(1).to_bytes())
    with pytest.raises(
        InputError, match=f"made on base {'0' * 16}, and this is base {runner.base}"
    ):
        runner.adapters.take("bob", path)

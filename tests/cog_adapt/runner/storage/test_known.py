"""What is known of adapters is written beside them, late for uses, and survives a restart."""

import json

import pytest

from cog_adapt.adapter_rule import Asker
from cog_adapt.runner.errors import AdapterNotFound, StoreError
from cog_adapt.runner.storage import known as known_module
from cog_adapt.runner.storage.folder import Folder
from cog_adapt.runner.storage.index import place_of
from cog_adapt.runner.storage.known import KnownAdapters
from cog_adapt.runner.storage.metadata import describe
from tests.cog_adapt.runner.storage.made import adapter_of

ADAPTER = adapter_of(1)
KEY = (place_of("ann"), ADAPTER.id)


@pytest.fixture
def folder(tmp_path):
    folder = Folder(tmp_path)
    folder.write(KEY, ADAPTER.to_bytes())
    return folder


@pytest.fixture
def known(folder):
    known = KnownAdapters(folder, None)
    known.refresh("ann")
    known.add(KEY, known.index[KEY])
    return known


def written(folder):
    return json.loads(folder.path(KEY).with_suffix(".json").read_text())


def test_an_adapter_from_before_waits_for_its_owner(folder):
    known = KnownAdapters(folder, None)
    assert known.index[KEY].owner == f"sha256:{KEY[0]}"
    heard = []
    known.watch(lambda owner, _, now: heard.append((owner, now is not None)))
    assert known.find(ADAPTER.id, Asker("ann")) == KEY
    known.refresh("ann")
    assert known.index[KEY].owner == "ann"
    assert heard == [(f"sha256:{KEY[0]}", False), ("ann", True)]
    with pytest.raises(AdapterNotFound):
        known.find(ADAPTER.id, Asker("bob"))


def test_uses_are_written_a_minute_late_or_at_the_end(folder, monkeypatch):
    known = KnownAdapters(folder, None)
    known.refresh("ann")
    known.add(KEY, describe(ADAPTER, size=100, owner="ann"))
    known.change(KEY, lambda each, _: each)
    before = written(folder)
    for _ in range(3):
        known.note_use(KEY)
    assert (known.index[KEY].hits, written(folder)) == (3, before)
    monkeypatch.setattr(known_module, "WRITE_USES_SECONDS", 0.0)
    known.note_use(KEY)
    assert written(folder)["hits"] == 4
    assert written(folder)["used_at"] > before["used_at"]
    monkeypatch.undo()
    known.note_use(KEY)
    known.write_uses()
    assert written(folder)["hits"] == KnownAdapters(folder, None).index[KEY].hits == 5


def test_a_use_that_cannot_be_written_costs_no_answer(known, folder, monkeypatch, caplog):
    def full(key, metadata):
        raise StoreError("full")

    monkeypatch.setattr(folder, "write_metadata", full)
    monkeypatch.setattr(known_module, "WRITE_USES_SECONDS", 0.0)
    known.note_use(KEY)
    assert known.index[KEY].hits == 1
    assert "is not written: full" in caplog.text


def test_another_process_is_heard_of_when_it_is_asked_for(known, folder):
    other = adapter_of(2)
    folder.write((KEY[0], other.id), other.to_bytes())
    folder.write_metadata((KEY[0], other.id), describe(other, size=100, owner="ann"))
    assert known.find(other.id, Asker("ann")) == (KEY[0], other.id)
    assert known.own(other.id, "ann") == (KEY[0], other.id)


def test_what_is_forgotten_is_told_once(known):
    heard = []
    known.watch(lambda *change: heard.append(change))
    known.forget(KEY)
    known.forget(KEY)
    assert heard == [("ann", ADAPTER.id, None)]

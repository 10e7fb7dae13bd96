"""A clock that is set forward while a process runs makes it delete nothing before its time.

The wall clock of these tests stays; what is moved is when the process began by its own count, so
that the wall clock is as far ahead as if it had been set.
"""

import asyncio
import os
import tempfile
from dataclasses import replace
from datetime import timedelta

import pytest

from cog_adapt import deletion_clock
from cog_adapt.deletion_clock import deletion_now, deletion_time
from cog_adapt.runner.errors import AdapterNotFound
from cog_adapt.runner.storage.budgets import StorageBudgets
from cog_adapt.runner.storage.checkpoint_folder import CheckpointFolder
from cog_adapt.runner.storage.store import AdapterStore
from cog_adapt.server.files.temp_files import new_prefix, remove_old_temp_files
from cog_adapt.server.records.blobs import BlobFolder, Blobs
from tests.cog_adapt.runner.storage.made import adapter_of
from tests.cog_adapt.server.records.home import Home, make_record

DAY = 86_400.0
AHEAD = 400 * DAY


@pytest.fixture(params=["set forward", "right", "set back"])
def set_forward(request, monkeypatch):
    """Whether the clock was set forward, by more than anything is kept for."""
    ahead = {"set forward": AHEAD, "right": 0.0, "set back": -AHEAD}[request.param]
    monkeypatch.setattr(deletion_clock, "BEGAN", deletion_clock.BEGAN - ahead)
    return ahead > 0


def put(path, age):
    """A file that was written so many seconds ago, by the clock before it was set."""
    path.write_bytes(b"x")
    os.utime(path, times=(deletion_time() - age,) * 2)


def said_to_be(changes):
    return lambda known, _: replace(known, **changes)


def test_records_go_by_their_age(set_forward, tmp_path):
    async def story():
        async with Home(None, tmp_path).opened() as records:
            for number, days in enumerate((0, 29, 31)):
                ended = deletion_now() - timedelta(days=days)
                records.save(make_record(number, created_at=ended, completed_at=ended))
            assert await records.prune(timedelta(days=30), 100) == 1

    asyncio.run(story())


def test_a_file_whose_record_is_on_its_way_stays(set_forward, tmp_path):
    blobs = Blobs(BlobFolder(tmp_path), 100)
    put(tmp_path / "young", 60)
    put(tmp_path / "old", 2 * 3_600)
    blobs.sweep(lambda names: set(), 3_600)
    assert os.listdir(tmp_path) == ["young"]


def test_temporary_files_and_states_of_trainings_stay(set_forward, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ours = [f"{new_prefix()}abcdefg{letter}.png" for letter in "ab"]
    for name, days in zip(ours, (1, 8), strict=True):
        put(tmp_path / name, days * DAY)
    assert remove_old_temp_files(7) == 1
    folder = tmp_path / "states"
    folder.mkdir()
    put(folder / "young.safetensors", DAY)
    put(folder / "old.safetensors", 4 * DAY)
    CheckpointFolder(folder, 3, most_bytes=2**20).tidy()
    assert os.listdir(folder) == ["young.safetensors"]


def test_adapters_are_not_removed_though_those_over_their_time_are_not_found(set_forward, tmp_path):
    budgets = StorageBudgets(0, 0, 2**40, 2**40, 90)
    store = AdapterStore(tmp_path, budgets)
    adapters = [adapter_of(number) for number in range(4)]
    for adapter in adapters:
        store.put(adapter, "ann")
    ids = [adapter.id for adapter in adapters]
    now = deletion_now()
    said = (
        {"used_at": (now - timedelta(days=89)).isoformat()},
        {"used_at": (now - timedelta(days=91)).isoformat()},
        {"expires_at": (now + timedelta(days=1)).isoformat()},
        {"expires_at": (now - timedelta(days=1)).isoformat()},
    )
    for adapter_id, changes in zip(ids, said, strict=True):
        store.change(adapter_id, "ann", said_to_be(changes))
    again = AdapterStore(tmp_path, budgets)
    again.put(adapter_of(9), "ann")
    left = {path.stem for path in tmp_path.rglob("*.safetensors")}
    assert left == {ids[0], ids[2], adapter_of(9).id}
    if set_forward:
        with pytest.raises(AdapterNotFound):
            again.get(ids[2], "ann")
    else:
        assert again.get(ids[2], "ann").id == ids[2]

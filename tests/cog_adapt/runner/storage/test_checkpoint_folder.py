"""The folder of unfinished trainings' states."""

import os
import shutil
import time
from types import SimpleNamespace

import pytest

from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.storage.checkpoint_folder import CheckpointFolder, folder_of

DAY = 86_400
ENOUGH = 2**20


@pytest.fixture
def put(tmp_path):
    def put(name, size=1, age=0.0):
        path = tmp_path / name
        path.write_bytes(b"x" * size)
        os.utime(path, times=(time.time() - age,) * 2)
        return path

    return put


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_what_is_too_old_goes_with_its_draft_and_nothing_else(put, tmp_path):
    put("old.safetensors", age=3 * DAY + 60)
    put("old.safetensors.1.2.part", age=3 * DAY + 60)
    put("young.safetensors", age=3 * DAY - 60)
    put("old.txt", age=9 * DAY)
    CheckpointFolder(tmp_path, 3, most_bytes=ENOUGH).tidy()
    assert names(tmp_path) == ["old.txt", "young.safetensors"]


def test_the_oldest_go_where_there_is_too_much(put, tmp_path):
    for age, name in enumerate("abc"):
        put(f"{name}.safetensors", size=10, age=age * 60)
    CheckpointFolder(tmp_path, 3, most_bytes=20).tidy()
    assert names(tmp_path) == ["a.safetensors", "b.safetensors"]


def test_what_is_in_use_stays(put, tmp_path):
    mine = put("mine.safetensors", size=20, age=9 * DAY)
    put("other.safetensors", size=1)
    CheckpointFolder(tmp_path, 3, most_bytes=20).tidy(written=mine)
    assert names(tmp_path) == ["mine.safetensors"]


def test_what_alone_is_too_much_is_not_kept_and_the_log_says_so_once(put, tmp_path, caplog):
    folder = CheckpointFolder(tmp_path, 3, most_bytes=60, most_of_owner=30)
    other = put("other.safetensors", size=25)
    for owner, size in (("ann", 31), ("", 61)):
        caplog.clear()
        mine = folder.begin("mine", owner)
        for _ in range(2):
            put(mine.name, size=size)
            folder.tidy(written=mine)
        assert names(tmp_path) == [other.name]
        [line] = caplog.messages
        assert (
            f"{size} bytes; all states together may have 60 (CHECKPOINT_BYTES), one owner's 30"
            in line
        )


def test_the_oldest_of_who_has_too_much_go_and_nobody_elses(put, tmp_path):
    folder = CheckpointFolder(tmp_path, 3, most_bytes=100, most_of_owner=20)
    anns = [put(folder.begin(key, "ann").name, size=10, age=60) for key in "abc"]
    bobs = put(folder.begin("a", "bob").name, size=10, age=600)
    nobodys = [put(folder.begin(key).name, size=15, age=600) for key in "xyz"]
    os.utime(anns[1], times=(time.time() - 300,) * 2)
    folder.tidy(written=anns[2])
    assert names(tmp_path) == sorted(each.name for each in (anns[0], anns[2], bobs, *nobodys))


@pytest.mark.parametrize("disk_bytes", [None, 2 * 2**20])
def test_a_tenth_of_the_disk_is_the_limit_where_none_is_set(put, tmp_path, monkeypatch, disk_bytes):
    free = 2 * 2**20 if disk_bytes is None else 2**40
    disk = SimpleNamespace(free=free)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: disk)
    states = tmp_path / "checkpoints"
    states.mkdir()
    for age, name in enumerate("abc"):
        put(f"checkpoints/{name}.safetensors", size=2**20 // 10, age=age * 60)
    folder_of(RunnerSettings(weights_dir=tmp_path, disk_bytes=disk_bytes))
    assert names(states) == ["a.safetensors", "b.safetensors"]


def test_a_folder_that_is_not_there_yet_is_tidy(tmp_path):
    folder = CheckpointFolder(tmp_path / "a" / "b", 3, most_bytes=ENOUGH)
    folder.tidy()
    assert folder.begin("key") == tmp_path / "a" / "b" / "key.safetensors"


def test_what_is_written_after_its_training_has_ended_goes_too(put, tmp_path):
    folder = CheckpointFolder(tmp_path, 3, most_bytes=ENOUGH)
    mine = folder.begin("mine")
    folder.remove(mine)
    put("mine.safetensors")
    folder.tidy(written=mine)
    assert names(tmp_path) == []
    assert folder.begin("mine") == put("mine.safetensors")
    folder.tidy(written=mine)
    assert names(tmp_path) == ["mine.safetensors"]


@pytest.mark.parametrize(("others", "left"), [(255, []), (256, ["mine.safetensors"])])
def test_of_trainings_that_have_ended_the_last_are_remembered(put, tmp_path, others, left):
    folder = CheckpointFolder(tmp_path, 3, most_bytes=ENOUGH)
    mine = folder.begin("mine")
    folder.remove(mine)
    for number in range(others):
        folder.remove(folder.begin(str(number)))
    put("mine.safetensors")
    folder.tidy(written=mine)
    assert names(tmp_path) == left


def test_a_runners_folder_lies_beside_its_adapters(tmp_path):
    settings = RunnerSettings(weights_dir=tmp_path, checkpoint_days=3, checkpoint_bytes=7)
    folder = folder_of(settings)
    state = folder.begin("mine")
    assert state == tmp_path / "checkpoints" / "mine.safetensors"
    state.parent.mkdir()
    state.write_bytes(b"12345678")
    folder.tidy()
    assert not state.exists()  # it has more than 7 bytes


def test_a_state_of_another_name_is_taken_over_where_there_is_none(tmp_path):
    folder = CheckpointFolder(tmp_path, 7, most_bytes=ENOUGH)
    (tmp_path / "earlier.safetensors").write_bytes(b"1")
    own = folder.begin("own", "ann")
    folder.take_over("earlier", own)
    assert own.read_bytes() == b"1"
    assert not (tmp_path / "earlier.safetensors").exists()
    (tmp_path / "earlier.safetensors").write_bytes(b"2")
    folder.take_over("earlier", own)
    folder.take_over("absent", own)
    assert own.read_bytes() == b"1"

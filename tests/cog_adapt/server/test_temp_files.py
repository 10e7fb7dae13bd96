import os
import re
import tempfile
import time
from pathlib import Path

import pytest

from cog_adapt.server.files.temp_files import (
    folder_prefix,
    new_prefix,
    remove_old_temp_files,
    remove_temp_files,
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_each_process_has_a_prefix_of_its_own():
    prefixes = {new_prefix() for _ in range(100)}
    assert len(prefixes) == 100
    assert all(re.fullmatch("tmp[0-9a-f]{8}_", prefix) for prefix in prefixes)


def test_the_files_of_a_process_are_removed_and_no_others(folder):
    mine, other = new_prefix(), new_prefix()
    for name in (f"{mine}a.png", mine, f"{other}b.png", f"x{mine}c.png"):
        (folder / name).touch()
    remove_temp_files(mine)
    assert {path.name for path in folder.iterdir()} == {f"{other}b.png", f"x{mine}c.png"}


def test_a_file_that_cannot_be_removed_or_is_gone_is_left(folder, monkeypatch):
    (folder / "tmp_a").mkdir()
    (folder / "tmp_b").touch()
    remove_temp_files("tmp_")
    assert [path.name for path in folder.iterdir()] == ["tmp_a"]
    monkeypatch.setattr(Path, "glob", lambda self, pattern: [folder / "gone"])
    remove_temp_files("tmp_")


def test_old_files_of_killed_servers_are_removed_and_nothing_else(folder):
    def put(name, days):
        (folder / name).touch()
        os.utime(folder / name, times=(time.time() - days * 86_400,) * 2)

    ours, _ = tempfile.mkstemp(prefix=new_prefix(), suffix="a.png")
    os.close(ours)
    (mine,) = os.listdir(folder)
    put(mine, 3)
    for name in ("tmpabc12345", "notes.txt", "tmp01234567_x", f"x{mine}"):
        put(name, 30)
    put(f"{new_prefix()}abcdefghb.png", 1)
    (folder / f"{new_prefix()}abcdefgh").symlink_to(folder / "notes.txt")
    before = set(os.listdir(folder))
    assert remove_old_temp_files(2) == 1
    assert before - set(os.listdir(folder)) == {mine}


def test_the_folders_of_the_front_go_with_what_is_in_them(folder):
    mine, other = new_prefix(), new_prefix()
    for prefix in (folder_prefix(mine), folder_prefix(other), mine):
        (folder / f"{prefix}x" / "deep").mkdir(parents=True)
        (folder / f"{prefix}x" / "deep" / "file").touch()
    remove_temp_files(mine)
    assert {path.name for path in folder.iterdir()} == {f"{folder_prefix(other)}x", f"{mine}x"}

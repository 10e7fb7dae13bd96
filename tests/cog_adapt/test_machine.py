"""The memory and the disk that budgets are computed from."""

import shutil

import pytest

from cog_adapt.machine import free_disk_bytes, memory_bytes, whole_disk_bytes


@pytest.mark.parametrize(
    ("files", "least"),
    [
        ({}, 4000),
        ({"memory.max": "max"}, 4000),
        ({"memory.max": "3000\n"}, 3000),
        ({"memory/memory.limit_in_bytes": "2000"}, 2000),
        ({"a/memory.max": "1000", "a/b/memory.max": "max", "memory.max": "3000"}, 1000),
        ({"memory.max": "9000"}, 4000),
    ],
)
def test_the_memory_is_the_machines_or_the_least_of_its_cgroups(
    files, least, tmp_path, monkeypatch
):
    (tmp_path / "own").write_text("0::/a/b\n")
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    pages = {"SC_PAGE_SIZE": 4, "SC_PHYS_PAGES": 1000}
    monkeypatch.setattr("os.sysconf", pages.__getitem__)
    assert memory_bytes(tmp_path, tmp_path / "own") == least
    assert memory_bytes(tmp_path, tmp_path / "none") >= least


def test_the_disk_is_asked_for_a_folder_that_is_not_there_yet(tmp_path):
    found, later = shutil.disk_usage(tmp_path), tmp_path / "a" / "b"
    assert free_disk_bytes(later) == pytest.approx(found.free, rel=0.1)
    assert whole_disk_bytes(later) == found.total

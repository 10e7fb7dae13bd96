"""Memory that a device has, and has left."""

import os

import pytest
import torch

from gradient_check.phases import memory
from gradient_check.phases.memory import (
    device_memory,
    first_line,
    free_cache,
    free_memory,
    is_out_of_memory,
    machine_memory,
)


def test_only_a_card_has_a_cache_to_free(monkeypatch):
    freed: list[str] = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: freed.append("cuda"))
    free_cache(torch.device("cpu"))
    assert freed == []
    free_cache(torch.device("cuda", 0))
    assert freed == ["cuda"]


def test_memory_is_the_containers_where_that_is_less(tmp_path, monkeypatch):
    whole = machine_memory()
    assert whole > 2**28
    assert device_memory(torch.device("cpu")) == whole
    monkeypatch.setattr(memory, "CGROUP_LIMIT", tmp_path / "memory.max")
    for text, bytes_ in (("1000\n", 1000), ("max\n", None), (str(2**60), None)):
        (tmp_path / "memory.max").write_text(text)
        assert machine_memory() == (bytes_ or machine_memory_of_host())


def machine_memory_of_host():
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_free_memory_is_what_the_machine_or_the_container_has_left(monkeypatch, tmp_path):
    cpu, group = torch.device("cpu"), tmp_path / "memory.max"
    monkeypatch.setattr(memory, "CGROUP_LIMIT", group)
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "meminfo")
    assert free_memory(cpu) == machine_memory()
    (tmp_path / "meminfo").write_text("MemFree: 1 kB\nMemAvailable: 3000 kB\n")
    assert free_memory(cpu) == 3000 * 1024
    group.write_text("2000000\n")
    (tmp_path / "memory.current").write_text("1500000\n")
    (tmp_path / "memory.stat").write_text("anon 1000000\ninactive_file 400000\n")
    assert free_memory(cpu) == 900_000


@pytest.mark.parametrize(
    ("error", "is_it"),
    [
        (torch.OutOfMemoryError("any"), True),
        (MemoryError(), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), True),
        (RuntimeError("shapes do not match"), False),
        (ValueError("DefaultCPUAllocator: can't allocate memory"), False),
    ],
)
def test_an_error_shows_whether_memory_ran_out(error, is_it):
    assert is_out_of_memory(error) is is_it


def test_the_advice_below_an_errors_first_line_is_left_out():
    assert first_line(RuntimeError("no kernel\nSet CUDA_LAUNCH_BLOCKING=1")) == "no kernel"
    assert first_line(MemoryError()) == "MemoryError"

"""Freed memory goes back to the machine."""

import subprocess
import sys

import torch

from gradient_check.phases import freed_memory

GAPS = """
import torch
from gradient_check.phases.freed_memory import give_back

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

torch.ones(16_000_000)  # after which the heap takes what is smaller
before = resident()
tensors = [torch.ones(25_000) for _ in range(2_000)]
kept = tensors[::50]
del tensors
left = resident() - before
give_back(torch.device("cpu"))
print(left > 100e6, resident() - before < 40e6)
"""


def test_gaps_between_tensors_go_back_to_the_machine():
    done = subprocess.run([sys.executable, "-c", GAPS], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["True", "True"], done.stderr


def test_a_search_for_cycles_is_apart(monkeypatch):
    searched = []
    monkeypatch.setattr("gc.collect", lambda: searched.append(1))
    freed_memory.give_back_freed(torch.device("cpu"))
    assert searched == []
    freed_memory.give_back(torch.device("cpu"))
    assert searched == [1]


def test_a_c_library_that_cannot_is_left_alone(monkeypatch):
    monkeypatch.setattr(freed_memory, "malloc_trim", lambda: None)
    freed_memory.give_back(torch.device("cpu"))

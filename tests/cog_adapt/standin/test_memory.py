"""Device memory: out of the host's reach, NaN when nobody wrote it, and limited."""

import copy
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load, save

ROOT = Path(__file__).parents[3]
READ_BY_HOST = """
from tests.standin.load import load
load()
import ctypes, torch
held = torch.ones(3, device="cuda")
print("before", flush=True)
ctypes.string_at(held.data_ptr(), 4)
print("after", flush=True)
"""


def test_a_host_that_reads_it_dies(device):
    done = subprocess.run(
        [sys.executable, "-c", READ_BY_HOST],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout == "before\n", done.stderr
    assert done.returncode == -11


def test_fresh_memory_and_memory_given_back_are_nan(device):
    held = torch.ones(1000, device=device)
    address = held.data_ptr()
    del held
    again = torch.empty(1000, device=device)
    assert again.data_ptr() == address
    assert again.isnan().all()


def test_it_is_counted_for_each_device(device):
    before = [torch.cuda.memory_allocated(n) for n in (0, 1)]
    torch.cuda.reset_peak_memory_stats(device)
    held = torch.empty(2**18, device=device)
    assert [torch.cuda.memory_allocated(n) for n in (0, 1)] == [before[0], before[1] + 2**20]
    del held
    assert torch.cuda.memory_allocated(device) == before[1]
    assert torch.cuda.max_memory_allocated(device) == before[1] + 2**20


def test_it_ends(device):
    torch.ops.standin.set_limit(torch.cuda.memory_allocated(device) + 2**20, 1)
    held = torch.empty(2**17, device=device)
    with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate 1 MiB"):
        torch.empty(2**18, device=device)
    del held
    assert torch.empty(2**18, device=device).numel() == 2**18
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(2**50, device=device)


def test_the_host_gets_numbers_by_a_copy_only(device):
    held = torch.arange(3.0, device=device)
    with pytest.raises(TypeError, match="can't convert cuda:1 device type tensor to numpy"):
        held.numpy()
    assert held.cpu().numpy().tolist() == held.tolist() == [0.0, 1.0, 2.0]


def test_views_share_it_and_copies_do_not(device):
    held = torch.zeros(2, 3, device=device)
    held.t()[0].add_(1)
    held.view(-1)[1:3] = 5
    other, deep = held.clone(), copy.deepcopy(held)
    held.zero_()
    assert other.tolist() == deep.tolist() == [[1.0, 5.0, 5.0], [1.0, 0.0, 0.0]]
    assert {other.device, deep.device} == {device}
    assert held.sum() == 0


def test_what_is_resized_keeps_its_device(device):
    found = torch.empty(0, device=device)
    torch.add(torch.ones(3, device=device), 1, out=found)
    assert found.device == device
    assert found.tolist() == [2.0, 2.0, 2.0]


def test_files_are_written_from_it_and_read_to_it(device):
    held = {"a": torch.randn(3, 4, device=device)}
    moved = load(save(held))["a"]
    assert moved.device.type == "cpu"
    assert torch.equal(moved.to(device), held["a"])

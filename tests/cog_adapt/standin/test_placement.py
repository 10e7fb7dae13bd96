"""Tensors of several devices do not meet, but for what CUDA's own kernels take from the CPU."""

import threading

import pytest
import torch
from torch import nn
from torch.nn import functional as F

REFUSED = "Expected all tensors to be on the same device"


@pytest.mark.parametrize("other", ["cpu", "cuda:0"])
def test_an_operation_on_two_devices_is_refused(device, other):
    here, there = torch.ones(2, 2, device=other), torch.ones(2, 2, device=device)
    rows = torch.zeros(2, dtype=torch.long, device=other)
    for operation in (
        lambda: there + here,
        lambda: here @ there,
        lambda: torch.cat([here, there]),
        lambda: F.linear(there, here),
        lambda: F.embedding(rows, there),
        lambda: F.cross_entropy(there, rows),
    ):
        with pytest.raises(RuntimeError, match=REFUSED):
            operation()


def test_an_optimizer_whose_state_is_elsewhere_is_refused(device):
    weight = nn.Parameter(torch.ones(2, device=device))
    optimizer = torch.optim.AdamW([weight], fused=True)
    weight.sum().backward()
    optimizer.step()
    optimizer.state[weight]["exp_avg"] = optimizer.state[weight]["exp_avg"].cpu()
    with pytest.raises(RuntimeError, match=REFUSED):
        optimizer.step()


def test_numbers_and_indices_may_be_on_the_cpu(device):
    held = torch.arange(4.0, device=device)
    assert (held * torch.tensor(2.0)).tolist() == [0.0, 2.0, 4.0, 6.0]
    assert held[torch.tensor([3, 1])].tolist() == [3.0, 1.0]
    assert held.masked_fill(held > 1, torch.tensor(9.0)).tolist() == [0.0, 1.0, 9.0, 9.0]


def test_what_is_made_from_a_tensor_is_on_its_device(device):
    held = torch.ones(2, device=device)
    made = [held + 1, torch.zeros_like(held), held.new_ones(3), held.sort().values, held.unique()]
    assert {each.device for each in made} == {device}
    assert torch.zeros_like(torch.ones(2), device=device).device == device
    assert torch.ones(2, device="cuda").device == torch.device("cuda", 0)


def test_the_current_device_is_the_threads(device):
    seen = []
    torch.cuda.set_device(device)
    thread = threading.Thread(target=lambda: seen.append(torch.empty(1, device="cuda").device))
    thread.start()
    thread.join()
    assert seen == [torch.device("cuda", 0)]
    assert torch.empty(1, device="cuda").device == device
    with torch.cuda.device(0):
        assert torch.cuda.current_device() == 0
    assert torch.cuda.current_device() == 1


def test_a_device_that_is_not_there_is_refused(device):
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.empty(1, device="cuda:2")

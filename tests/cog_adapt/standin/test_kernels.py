"""Kernels give what the CPU's give; PyTorch's own code for CUDA runs above them."""

import threading

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from gradient_check.tests.present import present

IDS = torch.tensor([[1, 2, 0], [2, 1, 1]])
NUMBERS = torch.linspace(-1, 1, 24).view(2, 3, 4)
OPERATIONS = {
    "product": lambda x: x @ x.transpose(1, 2),
    "convolution": lambda x: F.conv1d(x, torch.ones(2, 3, 2, device=x.device)),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x),
    "norm": lambda x: F.layer_norm(x, (4,)),
    "sorting": lambda x: x.sort(-1, descending=True).values,
    "counting": lambda x: torch.bincount((x > 0).int().flatten()),
    "finding": lambda x: (x > 0).nonzero(),
    "solving": lambda x: torch.linalg.solve(torch.eye(3, device=x.device) * 3, x),
    "strides": lambda x: x.as_strided((2, 2), (1, 4)).contiguous(),
    "equation": lambda x: torch.einsum("bij,bkj->ik", x, x),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_they_give_what_the_cpu_gives(device, name):
    operation = OPERATIONS[name]
    found = operation(NUMBERS.to(device))
    assert found.device == device
    torch.testing.assert_close(found.cpu(), operation(NUMBERS), rtol=1e-6, atol=1e-6)


def test_gradients_are_those_of_the_cpu_and_come_on_another_thread(device):
    def gradient(where):
        weight = NUMBERS.to(where).requires_grad_()
        threads = set()
        loss = F.embedding(IDS.to(where), weight[0]).tanh().sum()
        weight.register_hook(lambda _: threads.add(threading.get_ident()))
        loss.backward()
        return present(weight.grad).cpu(), threads

    there, threads = gradient(device)
    assert torch.equal(there, gradient("cpu")[0])
    assert threads.isdisjoint({threading.get_ident()})


def test_autocast_scaler_and_fused_optimizer_run(device):
    module = nn.Linear(4, 2).to(device)
    before = module.weight.detach().clone()
    optimizer = torch.optim.AdamW(module.parameters(), fused=True)
    scaler = torch.amp.GradScaler("cuda")
    with torch.autocast("cuda", torch.float16):
        output = module(NUMBERS.to(device))
    assert output.dtype == torch.float16
    with torch.autocast("cpu", torch.bfloat16):
        assert module(NUMBERS.to(device)).dtype == torch.float32
    scaler.scale(output.float().pow(2).mean()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert not torch.equal(module.weight, before)


def test_an_index_out_of_range_ends_the_device_for_the_process(device):
    table = torch.ones(3, 2, device=device)
    with pytest.raises(torch.AcceleratorError, match="device-side assert"):
        F.embedding(torch.tensor([7], device=device), table)
    with pytest.raises(torch.AcceleratorError, match="device-side assert"):
        table + 1
    with pytest.raises(torch.AcceleratorError, match="device-side assert"):
        table.cpu()

"""Random streams, one for each device; the stream that work is queued on; and waiting."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch.nn import functional as F


def test_each_device_has_a_stream_of_its_own(device):
    torch.manual_seed(0)  # of the CPU and of every device
    cpu, states = torch.get_rng_state(), torch.cuda.get_rng_state_all()
    torch.rand(3, device=device)
    assert torch.equal(torch.get_rng_state(), cpu)
    assert torch.equal(torch.cuda.get_rng_state(0), states[0])
    assert not torch.equal(torch.cuda.get_rng_state(device), states[1])
    torch.rand(3)
    moved = torch.cuda.get_rng_state(device)
    assert not torch.equal(torch.get_rng_state(), cpu)
    torch.cuda.set_rng_state(states[1], device)
    torch.rand(3, device=device)
    assert torch.equal(torch.cuda.get_rng_state(device), moved)


def test_a_seed_is_for_the_current_device(device):
    torch.cuda.manual_seed(3)
    with torch.cuda.device(device):
        torch.cuda.manual_seed(5)
    assert torch.cuda.initial_seed() == 3
    one = torch.rand(2, device=device)
    torch.cuda.manual_seed(5)
    assert torch.equal(torch.rand(2, device="cuda:0").cpu(), one.cpu())


def test_dropout_draws_from_the_devices_stream(device):
    def drawn():
        return F.dropout(torch.ones(100, device=device), 0.5)

    torch.cuda.manual_seed_all(1)
    first = drawn()
    torch.rand(9)
    other = drawn()
    torch.cuda.manual_seed_all(1)
    assert torch.equal(drawn(), first)
    assert not torch.equal(other, first)


def test_a_generator_is_of_the_device(device):
    own = torch.Generator(device).manual_seed(3)
    before = torch.cuda.get_rng_state(device)
    first = torch.rand(3, device=device, generator=own)
    assert torch.equal(first, torch.rand(3, device=device, generator=own.manual_seed(3)))
    assert torch.equal(torch.cuda.get_rng_state(device), before)
    with pytest.raises(RuntimeError, match="Expected a 'cuda' device type for generator"):
        torch.rand(3, device=device, generator=torch.Generator())


def test_each_device_and_thread_has_a_current_stream(device):
    def current():
        return [torch.cuda.current_stream(number).stream_id for number in (0, 1)]

    own: Any = torch.Stream(device=device)
    assert current() == [0, 0]
    torch.cuda.set_stream(own)
    assert torch.cuda.current_device() == 1
    assert current() == [0, own.stream_id]
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(current).result() == [0, 0]
    torch.cuda.set_stream(torch.cuda.default_stream(device))
    assert current() == [0, 0]


@pytest.mark.parametrize("wait", [torch.cuda.synchronize, lambda: torch.ones(1, device=0).item()])
def test_a_copy_that_was_not_waited_for_is_nan(device, wait):
    copied = torch.ones(3, device=device).to("cpu", non_blocking=True)
    assert copied.isnan().all()
    wait()
    assert copied.tolist() == [1.0, 1.0, 1.0]

"""The bytes of tensors that live at once are counted, also in a backward and on meta."""

import pytest
import torch
from torch import nn

from bench.live_bytes import LiveBytes


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_the_peak_is_of_what_lived_at_once(device):
    with LiveBytes() as live:
        one = torch.zeros(100, device=device)
        del one
        other = torch.zeros(50, device=device)
        view = other[:10]
        assert live.now() == 200
    assert live.peak == 400
    del other, view
    assert live.now() == 0


def test_weights_that_were_there_do_not_count_and_their_gradients_do():
    module = nn.Linear(10, 10, bias=False)
    with LiveBytes(module) as live:
        module(torch.ones(1, 10)).sum().backward()
        assert module.weight.data.shape == (10, 10)
        assert live.now() == 400
    module.weight.grad = None
    assert live.now() == 0

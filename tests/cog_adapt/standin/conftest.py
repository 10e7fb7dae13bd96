"""Tests of the device itself are skipped where it is not loaded; `make standin` loads it."""

import pytest
import torch

from tests.standin import VERSION


@pytest.fixture
def device():
    """The second device, while the first is current; whole again after the test."""
    if torch.version.cuda != VERSION:
        pytest.skip("the stand-in is not loaded: make standin")
    limit = torch.ops.standin.limit(1)
    torch.cuda.set_device(0)
    yield torch.device("cuda", 1)
    torch.ops.standin.heal()
    torch.ops.standin.set_limit(limit, 1)
    torch.cuda.synchronize()

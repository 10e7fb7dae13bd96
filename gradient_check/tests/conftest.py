"""Models of these tests are drawn from one seed, whichever test ran before."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)

"""The devices that tests of the runner compute on.

`DEVICE` is the CPU, unless TEST_DEVICE names another: `make standin` and `make gpu` run the tests
of the runner once more with `cuda`. A test of the CPU names the CPU.
"""

import os

import pytest
import torch

DEVICE = os.environ.get("TEST_DEVICE", "cpu")
PLACE = "cuda:0" if DEVICE == "cuda" else DEVICE  # as reports name it

COUNT = torch.cuda.device_count()
FIRST, LAST = (torch.device("cuda", number) for number in (0, max(0, COUNT - 1)))
NEEDS_CUDA = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device answers here"),
]
NEEDS_TWO = pytest.mark.skipif(COUNT < 2, reason="there are no two CUDA devices here")
PRECISIONS = ("fp32", "bf16", "fp16")

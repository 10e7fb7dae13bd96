"""What an error says of the device: that its memory ran out, or that it failed for good."""

import pytest
import torch

from cog_adapt.runner.devices.device import failure_of
from gradient_check.phases.memory import is_out_of_memory


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), True),
        (MemoryError(), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"), True),
        (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), True),
        (RuntimeError("CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"), True),
        (RuntimeError("CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED"), True),
        (torch.AcceleratorError("CUDA error: out of memory\nadvice"), True),
        (torch.AcceleratorError("CUDA error: device-side assert triggered"), False),
        (RuntimeError("a kernel failed"), False),
        (ValueError("can't allocate memory"), False),
    ],
)
def test_memory_that_ran_out_is_recognised(error, expected):
    assert is_out_of_memory(error) is expected


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (None, ""),
        (torch.OutOfMemoryError("CUDA out of memory"), ""),
        (torch.AcceleratorError("CUDA error: assert\nadvice"), "CUDA error: assert"),
    ],
)
def test_a_device_that_answers_nothing_is_told_from_a_full_one(monkeypatch, error, told):
    def zeros(*_, **__):
        if error is not None:
            raise error
        return torch.ones(())

    monkeypatch.setattr(torch, "zeros", zeros)
    assert failure_of(torch.device("cuda", 0)) == told
    assert failure_of(torch.device("cpu")) == ""

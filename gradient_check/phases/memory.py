"""The memory of a device, its free part, and the recognition of out of memory errors."""

import os
from pathlib import Path

import torch

CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")  # bytes, or "max"
MEMINFO = Path("/proc/meminfo")  # in KiB
_OUT_OF_MEMORY = (
    "can't allocate memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
    "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED",
    "CUDA error: out of memory",  # an AcceleratorError from a call that is not the allocator's
)


def machine_memory() -> int:
    """Return the bytes of memory that this process may have: the container's, or the machine's."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(whole, int(CGROUP_LIMIT.read_text()))
    except (OSError, ValueError):  # no container, or "max"
        return whole


def device_memory(device: torch.device) -> int:
    """Return the bytes of memory that a device has; the CPU has the machine's."""
    if device.type == "cpu":
        return machine_memory()
    return int(torch.cuda.get_device_properties(device).total_memory)


def free_memory(device: torch.device) -> int:
    """Return the bytes available on a device, including those that its cache can release."""
    if device.type == "cpu":
        return min(_available(), _left_of_container())
    cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0]) + cached


def _available() -> int:
    """Return the free memory that the machine reports; all of it without a report."""
    try:
        lines = MEMINFO.read_text().splitlines()
    except OSError:
        return machine_memory()
    found = (line.split() for line in lines)
    return next(1024 * int(words[1]) for words in found if words[0] == "MemAvailable:")


def _left_of_container() -> int:
    """Return the rest of the container's memory; its cached files do not count as used."""
    try:
        used = int(CGROUP_LIMIT.with_name("memory.current").read_text())
        lines = CGROUP_LIMIT.with_name("memory.stat").read_text().splitlines()
    except (OSError, ValueError):  # no container
        return machine_memory()
    cached = next((int(line.split()[1]) for line in lines if line.startswith("inactive_file ")), 0)
    return machine_memory() - used + cached


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that the device's or the machine's memory ran out."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _OUT_OF_MEMORY)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message: PyTorch adds advice below it."""
    return str(error).partition("\n")[0] or type(error).__name__


def free_cache(device: torch.device) -> None:
    """Release the memory that a device's allocator caches; a CPU's has no cache."""
    if device.type == "cuda":
        torch.cuda.empty_cache()

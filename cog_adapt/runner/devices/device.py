"""Chooses the device and the precision: those that the settings ask for, or an error."""

import logging
import os
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import nn

from cog_adapt.runner.config import PRECISIONS, Precision, RunnerSettings, name_of
from cog_adapt.runner.devices.determinism import make_deterministic
from cog_adapt.runner.errors import ConfigError, SetupError
from cog_adapt.runner.modes import use_device

_CGROUP = Path("/sys/fs/cgroup/memory.max")
_MEMINFO = Path("/proc/meminfo")
_SIXTEEN_BIT = (torch.bfloat16, torch.float16)
_OUT_OF_MEMORY = (
    "can't allocate memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
    "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED",
    "CUDA error: out of memory",  # of a call beside the allocator: an AcceleratorError
)
logger = logging.getLogger(__name__)


def choose_precision(settings: RunnerSettings) -> Precision:
    """Return the device and compute dtype of these settings, after a kernel has run there.

    Raises:
        SetupError: CUDA was asked for and is absent or broken, or the precision is not supported.
    """
    device = _choose_device(settings.device)
    if device.type == "cpu":
        return Precision(device, PRECISIONS.get(settings.precision, torch.float32))
    if settings.deterministic:
        make_deterministic()
    use_device(device)
    _prepare_cuda(device)
    has_bf16 = _has_bf16(device)
    if settings.precision == "bf16" and not has_bf16:
        raise SetupError(
            f"PRECISION is 'bf16', but {_card(device)} has no bfloat16. Set PRECISION=fp16 or fp32."
        )
    best = torch.bfloat16 if has_bf16 else torch.float32
    return Precision(device, PRECISIONS.get(settings.precision, best))


def _has_bf16(device: torch.device) -> bool:
    with torch.cuda.device(device):  # the question is about the current one
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))


def _card(device: torch.device) -> str:
    major, minor = torch.cuda.get_device_capability(device)
    name = torch.cuda.get_device_name(device)
    return f"{name} ({device}, compute capability {major}.{minor})"


def _choose_device(name: str) -> torch.device:
    if name == "auto":
        return _best_device()
    if name == "cpu":
        return torch.device(name)
    if torch.version.cuda is None:
        raise SetupError(
            f"DEVICE is {name!r}, but torch {torch.__version__} is a build without CUDA. Install "
            "the CUDA build, or set DEVICE=cpu."
        )
    if not torch.cuda.is_available():
        raise SetupError(
            f"DEVICE is {name!r}, but no CUDA device answers. Check the driver (nvidia-smi) and "
            "that the container was given the GPU (--gpus all), or set DEVICE=cpu."
        )
    index = int(name.partition(":")[2] or 0)  # torch.device takes only small ones
    if index >= torch.cuda.device_count():
        raise SetupError(
            f"DEVICE is {name!r}, but the devices here are cuda:0 to "
            f"cuda:{torch.cuda.device_count() - 1}. Name one of them."
        )
    return torch.device("cuda", index)


def _best_device() -> torch.device:
    if torch.cuda.is_available():
        return torch.device("cuda", 0)
    if torch.version.cuda is not None:
        logger.warning(
            "DEVICE is 'auto', this torch is a build with CUDA, but no CUDA device answers: the "
            "model computes on the CPU. Check the driver (nvidia-smi) and that the container was "
            "given the GPU (--gpus all), or set DEVICE=cpu."
        )
    return torch.device("cpu")


def _prepare_cuda(device: torch.device) -> None:
    """Run one kernel, and select convolutions that repeat bit for bit and round as float32."""
    try:
        (torch.ones(2, 2, device=device) @ torch.ones(2, 2, device=device)).sum().item()
    except RuntimeError as error:
        reason = first_line(error)
        if is_out_of_memory(error):
            raise SetupError(
                f"{_card(device)} has no memory left: {reason}. Other processes hold it "
                "(nvidia-smi names them): end one of them, or set DEVICE to another card."
            ) from error
        raise SetupError(
            f"{_card(device)} ran no kernel: {reason}. This torch has "
            f"kernels for {', '.join(torch.cuda.get_arch_list())}; install a build for the card."
        ) from error
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.allow_tf32 = False


def machine_memory() -> int:
    """Return the bytes of memory that this process may have: the container's, or the machine's."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(whole, int(_CGROUP.read_text()))
    except (OSError, ValueError):  # no container, or "max"
        return whole


def device_memory(device: torch.device) -> int:
    """Return the bytes of memory that a device has; the CPU has the machine's."""
    if device.type == "cpu":
        return machine_memory()
    return int(torch.cuda.get_device_properties(device).total_memory)


def free_memory(device: torch.device) -> int:
    """Return the bytes that may still be had on a device, with those that its cache gives back."""
    if device.type == "cpu":
        return min(_available(), _left_of_container())
    cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0]) + cached


def _available() -> int:
    """Return what the machine has left by its own account; all where it gives none."""
    try:
        lines = _MEMINFO.read_text().splitlines()
    except OSError:
        return machine_memory()
    found = (line.split() for line in lines)
    return next(1024 * int(words[1]) for words in found if words[0] == "MemAvailable:")


def _left_of_container() -> int:
    """Return what is left of the container's memory, whose cached files do not count as used."""
    try:
        used = int(_CGROUP.with_name("memory.current").read_text())
        lines = _CGROUP.with_name("memory.stat").read_text().splitlines()
    except (OSError, ValueError):  # no container
        return machine_memory()
    cached = next((int(line.split()[1]) for line in lines if line.startswith("inactive_file ")), 0)
    return machine_memory() - used + cached


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether memory ran out, of the device or of the machine."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _OUT_OF_MEMORY)


def failure_of(device: torch.device) -> str:
    """Return why a device answers nothing any more; empty while it does.

    After some errors, such as an index out of range in a kernel, every call on CUDA fails until the
    process ends. Which errors do so is no part of their type, so a kernel is tried.
    """
    if device.type == "cpu":
        return ""
    try:
        torch.zeros((), device=device).item()
    except RuntimeError as error:
        return "" if is_out_of_memory(error) else first_line(error)
    return ""


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message: PyTorch writes advice below it."""
    return str(error).partition("\n")[0] or type(error).__name__


def free_cache(device: torch.device) -> None:
    """Give back the memory that a device's allocator keeps for later; a CPU's keeps none."""
    if device.type == "cuda":
        torch.cuda.empty_cache()


def fit_weights(precision: Precision, module: nn.Module, asked: str) -> Precision:
    """Return the precision for a base: 16-bit weights compute in their own dtype.

    Trained tensors are float32 anyway.

    Raises:
        ConfigError: another precision was asked for by name.
    """
    dtypes = _dtypes(module.parameters())
    if not dtypes or (precision.autocasts and asked != "auto"):
        return precision
    dtype = dtypes.pop()
    if asked != "auto":
        raise ConfigError(
            f"PRECISION is {asked!r}, but the model's weights are {name_of(dtype)}. Load them as "
            f"float32, or set PRECISION={name_of(dtype)}."
        )
    return Precision(precision.device, dtype)


def _dtypes(parameters: Iterable[nn.Parameter]) -> set[torch.dtype]:
    return {p.dtype for p in parameters if p.dtype in _SIXTEEN_BIT}

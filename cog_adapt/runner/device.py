"""Chooses the device and the precision: those that the settings ask for, or an error."""

import os
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import nn

from cog_adapt.runner.config import PRECISIONS, Precision, RunnerSettings, name_of
from cog_adapt.runner.errors import ConfigError, SetupError

_CGROUP = Path("/sys/fs/cgroup/memory.max")
_SIXTEEN_BIT = (torch.bfloat16, torch.float16)


def choose_precision(settings: RunnerSettings) -> Precision:
    """Return the device and compute dtype of these settings, after a kernel has run there.

    Raises:
        SetupError: CUDA was asked for and is absent or broken, or the precision is not supported.
    """
    device = _choose_device(settings.device)
    if device.type == "cuda":
        _prepare_cuda(device)
    if settings.precision == "auto":
        bf16 = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
        return Precision(device, torch.bfloat16 if bf16 else torch.float32)
    return Precision(device, PRECISIONS[settings.precision])


def _choose_device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    device = torch.device(name)
    if device.type == "cpu":
        return device
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
    index = device.index or 0
    if index >= torch.cuda.device_count():
        raise SetupError(
            f"DEVICE is {name!r}, but the devices here are cuda:0 to "
            f"cuda:{torch.cuda.device_count() - 1}. Name one of them."
        )
    return torch.device("cuda", index)


def _prepare_cuda(device: torch.device) -> None:
    """Run one kernel, and select algorithms that repeat bit for bit."""
    try:
        (torch.ones(2, 2, device=device) @ torch.ones(2, 2, device=device)).sum().item()
    except RuntimeError as error:
        name = torch.cuda.get_device_name(device)
        major, minor = torch.cuda.get_device_capability(device)
        raise SetupError(
            f"{name} (compute capability {major}.{minor}) ran no kernel: {error}. This torch has "
            f"kernels for {', '.join(torch.cuda.get_arch_list())}; install a build for the card."
        ) from error
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True


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


def fit_weights(precision: Precision, module: nn.Module, asked: str) -> Precision:
    """Return the precision for a base: 16-bit weights compute in their own dtype.

    Trained tensors are float32 anyway.

    Raises:
        ConfigError: another precision was asked for by name.
    """
    dtypes = _dtypes(module.parameters())
    if precision.autocasts or not dtypes:
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

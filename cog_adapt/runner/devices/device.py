"""Chooses the device and the precision: those that the settings ask for, or an error."""

import logging
from collections.abc import Iterable

import torch
from torch import nn

from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.errors import ConfigError, SetupError
from gradient_check.phases.determinism import make_deterministic
from gradient_check.phases.memory import first_line, is_out_of_memory
from gradient_check.phases.modes import use_device
from gradient_check.phases.precision import PRECISIONS, Precision, name_of

_SIXTEEN_BIT = (torch.bfloat16, torch.float16)
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
    with torch.cuda.device(device):  # `is_bf16_supported` asks about the current device
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


def failure_of(device: torch.device) -> str:
    """Return why a device is unusable; empty while it works.

    After some errors, such as an index out of range in a kernel, every call on CUDA fails until the
    process ends. The error's type does not show this, so a kernel is tried.
    """
    if device.type == "cpu":
        return ""
    try:
        torch.zeros((), device=device).item()
    except RuntimeError as error:
        return "" if is_out_of_memory(error) else first_line(error)
    return ""


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

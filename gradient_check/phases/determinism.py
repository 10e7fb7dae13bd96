"""Whether repeated work gives equal bits: a mode that a process sets when it starts.

On the CPU it always does. On CUDA, sums by atomic additions, the backward of attention and the
workspace of cuBLAS may differ from run to run, unless the mode is on (DETERMINISTIC=1). In this
mode an operation that cannot repeat raises RuntimeError with its name, so the self-test finds it.
"""

import os
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from gradient_check.phases.errors import InputError, SetupError

_VARIABLE = "CUBLAS_WORKSPACE_CONFIG"
_WORKSPACES = (":4096:8", ":16:8")
_RAISES = 2  # torch's deterministic debug mode that raises; 1 only warns


def make_deterministic() -> None:
    """Make all work on CUDA repeat bit for bit, before CUDA starts.

    Raises:
        SetupError: CUDA has started, or cuBLAS has a workspace that prevents repeatability.
    """
    chosen = os.environ.get(_VARIABLE)
    if chosen is None and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        raise SetupError(
            "DETERMINISTIC is on, but CUDA was started before the model runner, without "
            f"{_VARIABLE}. Set {_VARIABLE}={_WORKSPACES[0]} in the environment."
        )
    if chosen not in (None, *_WORKSPACES):
        raise SetupError(
            f"DETERMINISTIC is on, but {_VARIABLE} is {chosen!r}; allowed: "
            f"{' or '.join(_WORKSPACES)}. Set one of them, or leave it unset."
        )
    os.environ.setdefault(_VARIABLE, _WORKSPACES[0])
    torch.use_deterministic_algorithms(True)
    deterministic: Any = torch.utils.deterministic
    # filling would only reveal reads of memory that is not initialized
    deterministic.fill_uninitialized_memory = False


def is_repeatable(device: torch.device) -> bool:
    """Return whether the same work on this device gives the same bits."""
    if device.type == "cpu":
        return True
    return _is_in_the_mode() and not torch.backends.cudnn.benchmark


def _is_in_the_mode() -> bool:
    return (
        torch.get_deterministic_debug_mode() == _RAISES and os.environ.get(_VARIABLE) in _WORKSPACES
    )


def mode_of(device: torch.device) -> str:
    """Return the part that a device's name lacks to identify its bits: the mode, on CUDA."""
    return " deterministic" if device.type != "cpu" and is_repeatable(device) else ""


def require_repeatable(device: torch.device) -> None:
    """Refuse a request for equal bits (InputError) on a device that cannot promise them."""
    if is_repeatable(device):
        return
    if _is_in_the_mode():
        raise InputError(
            "`deterministic` is set, but torch.backends.cudnn.benchmark is on in this process, so "
            f"{device} may choose another kernel in another run. Leave `deterministic` out, or let "
            "the task leave that switch off."
        )
    raise InputError(
        f"`deterministic` is set, but this process computes on {device} without "
        "DETERMINISTIC=1, so another run may give other bits. Leave `deterministic` out, or "
        "start the server with DETERMINISTIC=1."
    )


def repeatable_attention(device: torch.device) -> AbstractContextManager[Any]:
    """Compute attention by matrix products, whose backward is deterministic, if the mode is on.

    The context must surround a forward together with its backward, so that recomputed blocks use
    the same products.
    """
    if device.type == "cpu" or not torch.are_deterministic_algorithms_enabled():
        return nullcontext()
    return sdpa_kernel(SDPBackend.MATH)

"""Whether the memory for a self-test is available."""

import torch

from gradient_check.phases.memory import free_memory

_SHARE = 7 / 8  # the rest is for activations and for the temporary memory of kernels


def has_room(device: torch.device, count: int) -> bool:
    """Return whether so many bytes are available on a device."""
    return count <= _SHARE * free_memory(device)

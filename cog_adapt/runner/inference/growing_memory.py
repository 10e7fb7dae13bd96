"""Bounds the bytes that growing answers may keep."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.devices.memory import in_words
from cog_adapt.shared_settings import share_of
from gradient_check.phases.memory import device_memory

_PART_OF_DEVICE = 8  # an eighth of the device's memory stores the state of growing answers


@dataclass(frozen=True)
class CacheNeeded:
    """The most bytes that one answer keeps, from its first forward to its end."""

    work: ClassVar[str] = "answer"
    setting: ClassVar[str] = "GENERATION_BYTES"
    remedy: ClassVar[str] = "Ask for fewer tokens, or send a shorter input."

    bytes: int

    def __str__(self) -> str:
        return in_words(self.bytes)


def generation_memory(settings: RunnerSettings, device: torch.device) -> int:
    """Return the bytes that all running answers may keep."""
    own_memory = share_of(device_memory(device), settings.memory_share)
    return settings.generation_bytes or own_memory // _PART_OF_DEVICE

"""How many bytes growing answers may keep, and what one of them needs."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.devices.memory import in_words
from gradient_check.phases.memory import device_memory

_DEVICE_SHARE = 8  # an eighth of the device's memory holds what answers keep
OWNER_SHARE = 0.5  # of one owner, where there are owners


@dataclass(frozen=True)
class CacheNeeded:
    """The bytes that one answer keeps at most, from its first forward to its end."""

    work: ClassVar[str] = "answer"
    setting: ClassVar[str] = "GENERATION_BYTES"
    remedy: ClassVar[str] = "Ask for fewer tokens, or send a shorter input."

    bytes: int

    def __str__(self) -> str:
        return in_words(self.bytes)


def generation_memory(settings: RunnerSettings, device: torch.device) -> int:
    """Return the bytes that all answers under way may keep."""
    return settings.generation_bytes or device_memory(device) // _DEVICE_SHARE

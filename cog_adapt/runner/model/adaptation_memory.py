"""How much memory adaptations may hold at once."""

from typing import Any

import torch

from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.scheduling.held_memory import HeldMemory
from cog_adapt.shared_settings import share_of
from gradient_check.phases.memory import free_memory

_SHARE_OF_FREE = 7 / 8  # the rest is for predictions, and for what is estimated too low


def held_adaptations(device: torch.device, settings: RunnerSettings) -> HeldMemory[Any]:
    """Limit adaptations by count, and by the bytes that are free while none is under way."""

    def limit() -> int:
        free = share_of(free_memory(device), settings.memory_share)
        return settings.adaptation_memory_bytes or int(_SHARE_OF_FREE * free)

    return HeldMemory(
        limit,
        owner_share=1.0,
        most_at_once=settings.adaptations_at_once,
        setting="ADAPTATIONS_AT_ONCE",
    )

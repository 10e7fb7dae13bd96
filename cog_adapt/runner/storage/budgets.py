"""The bytes and the age of stored adapters: from the settings, or derived from the machine."""

from dataclasses import dataclass

from cog_adapt.machine import memory_bytes, whole_disk_bytes
from cog_adapt.runner.config import RunnerSettings
from cog_adapt.shared_settings import share_of

_PART_OF_MEMORY, _PART_OF_DISK = 8, 4  # an eighth, a quarter


@dataclass(frozen=True)
class StorageBudgets:
    """The limits of stored adapters.

    Attributes:
        memory: bytes of adapters in memory.
        memory_of_owner: bytes of one owner's adapters in memory.
        disk: bytes of adapters on disk.
        disk_of_owner: bytes of one owner's adapters on disk.
        days: days after which an unused adapter is removed, unless it is pinned or named; 0: never.
    """

    memory: int
    memory_of_owner: int
    disk: int
    disk_of_owner: int
    days: int = 0


def budgets_of(settings: RunnerSettings) -> StorageBudgets:
    """Derive the limits that the settings leave to the machine."""
    own_memory = share_of(memory_bytes(), settings.memory_share)
    memory = settings.adapter_memory_bytes or own_memory // _PART_OF_MEMORY
    whole_disk = settings.disk_bytes or whole_disk_bytes(settings.weights_dir)
    disk = settings.adapter_disk_bytes or whole_disk // _PART_OF_DISK
    return StorageBudgets(
        memory=memory,
        memory_of_owner=settings.adapter_owner_memory_bytes
        or share_of(memory, settings.owner_share),
        disk=disk,
        disk_of_owner=settings.adapter_owner_disk_bytes or share_of(disk, settings.owner_share),
        days=settings.adapter_days,
    )

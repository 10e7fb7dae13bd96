"""How many bytes of adapters are kept, and for how long: of the settings, or of the machine."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from cog_adapt.runner.config import RunnerSettings
from gradient_check.phases.memory import machine_memory

_MEMORY_SHARE = 8  # an eighth of the machine's memory
_DISK_SHARE = 4
_OWNER_SHARE = 2  # one owner has half of it at most


@dataclass(frozen=True)
class Budgets:
    """The most that is kept.

    Attributes:
        memory: bytes of adapters in memory.
        memory_of_owner: of them, those of one owner.
        disk: bytes of adapters on disk.
        disk_of_owner: of them, those of one owner.
        days: after which an unused adapter goes, unless it is pinned or has a name; 0: never.
    """

    memory: int
    memory_of_owner: int
    disk: int
    disk_of_owner: int
    days: int = 0


def budgets_of(settings: RunnerSettings) -> Budgets:
    """Fill in what the settings leave to the machine."""
    memory = settings.adapter_memory_bytes or machine_memory() // _MEMORY_SHARE
    disk = settings.adapter_disk_bytes or _disk_size(settings.weights_dir) // _DISK_SHARE
    return Budgets(
        memory,
        settings.adapter_owner_memory_bytes or memory // _OWNER_SHARE,
        disk,
        settings.adapter_owner_disk_bytes or disk // _OWNER_SHARE,
        settings.adapter_days,
    )


def _disk_size(folder: Path) -> int:
    """Bytes of the disk that holds a folder, which need not be there yet."""
    there = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())
    return shutil.disk_usage(there).total

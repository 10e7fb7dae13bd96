"""Budgets are the settings', or shares of the machine."""

import shutil

from cog_adapt.machine import memory_bytes
from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.storage.budgets import StorageBudgets, budgets_of


def test_what_is_set_counts():
    settings = RunnerSettings(
        adapter_memory_bytes=8,
        adapter_owner_memory_bytes=3,
        adapter_disk_bytes=20,
        adapter_owner_disk_bytes=5,
        adapter_days=2,
    )
    assert budgets_of(settings) == StorageBudgets(8, 3, 20, 5, 2)


def test_what_is_not_set_is_a_share_of_the_machine(tmp_path):
    budgets = budgets_of(RunnerSettings(weights_dir=tmp_path / "not" / "yet"))
    memory, disk = memory_bytes(), shutil.disk_usage(tmp_path).total
    assert budgets == StorageBudgets(memory // 8, memory // 16, disk // 4, disk // 8, 90)

"""Every budget of bytes follows from three settings, on both sides (`docs/settings.md`).

What each budget is on one machine, to the byte, with the three settings and without, is in
`tests/contract_snapshot/data/budgets.txt`.
"""

import asyncio

import pytest
import torch

from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.errors import ConfigError as RunnerConfigError
from cog_adapt.runner.errors import InputError
from cog_adapt.runner.inference.answers import Query
from cog_adapt.runner.known.adaptation_cache import AdaptationCache
from cog_adapt.runner.model_runner import ModelRunner
from cog_adapt.runner.storage.budgets import StorageBudgets, budgets_of
from cog_adapt.runner.storage.store import AdapterStore
from cog_adapt.server.errors import ConfigError
from cog_adapt.server.records.space import RecordSpace
from cog_adapt.server.settings import Settings, read_settings
from cog_adapt.server.shares import budget
from cog_adapt.shared_settings import share_of
from tests.cog_adapt.growing import Length, Spelling
from tests.cog_adapt.models import Letters

MEMORY, DISK = 6_400_000, 2**30


@pytest.fixture(autouse=True)
def _memory(monkeypatch):
    monkeypatch.setattr(budget, "memory_bytes", lambda: MEMORY)


def test_a_share_of_the_memory_is_a_share_of_each_budget_in_memory():
    settings = Settings(memory_share=0.25)
    budgets = (*budget.MemoryBudgets.of(settings), budget.body_budget(settings))
    assert [each.most for each in budgets] == [200_000, 25_000, 200_000, 25_000, 200_000]
    quarter = budgets_of(RunnerSettings(memory_share=0.25)).memory
    assert 4 * quarter <= budgets_of(RunnerSettings()).memory < 4 * (quarter + 1)


def test_bytes_of_disk_are_parted_between_records_and_adapters():
    assert RecordSpace.of(Settings(disk_bytes=DISK)).most == DISK // 2
    assert budgets_of(RunnerSettings(disk_bytes=DISK)).disk == DISK // 4


def test_an_owners_share_counts_on_both_sides():
    assert budget.body_budget(Settings(owner_share=0.25)).most_of_owner == 200_000
    settings = RunnerSettings(owner_share=0.3, adapter_memory_bytes=10, adapter_disk_bytes=20)
    assert budgets_of(settings) == StorageBudgets(10, 3, 20, 6, days=90)


@pytest.mark.parametrize(("share", "is_kept"), [(1.0, True), (0.5, False)])
def test_an_owners_share_of_the_examples_that_are_kept(tmp_path, share, is_kept):
    settings = RunnerSettings(weights_dir=tmp_path, feature_bytes=2**16, owner_share=share)
    store = AdapterStore(tmp_path, budgets_of(settings))
    cache = AdaptationCache(Letters(), "model", settings, store)
    kept = cache.kept.of("ann")
    for word in "abcdefgh":
        kept.put([word], [torch.zeros(2**10)])
    assert [each is not None for each in kept.get(["a"])] == [is_kept]
    cache.close()


def test_an_owners_share_of_the_memory_of_growing_answers(tmp_path):
    def asked(share):
        settings = RunnerSettings(weights_dir=tmp_path, generation_bytes=2000, owner_share=share)
        with ModelRunner(Spelling(), settings) as runner:
            query = Query(["a"], options=Length(11), owner="ann")
            return asyncio.run(runner.predict_async(query))

    with pytest.raises(InputError, match="at most .* are free for answers"):
        asked(0.5)
    assert len(asked(1)[0]) == 11


def test_a_budgets_own_setting_wins():
    assert RecordSpace.of(Settings(record_bytes=10, disk_bytes=DISK)).most == 10
    assert budget.body_budget(Settings(body_bytes=11, memory_share=0.5)).most == 11
    settings = RunnerSettings(
        memory_share=0.5,
        disk_bytes=DISK,
        owner_share=0.1,
        adapter_memory_bytes=12,
        adapter_owner_memory_bytes=7,
        adapter_disk_bytes=13,
        adapter_owner_disk_bytes=8,
    )
    assert budgets_of(settings) == StorageBudgets(12, 7, 13, 8, days=90)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("MEMORY_SHARE", "0", "number above 0 to 1"),
        ("MEMORY_SHARE", "1.5", "number above 0 to 1"),
        ("MEMORY_SHARE", "50%", "number above 0 to 1"),
        ("DISK_BYTES", "20", "whole number from 1048576"),
        ("DISK_BYTES", "20GB", "whole number from 1048576"),
        ("OWNER_SHARE", "nan", "number above 0 to 1"),
    ],
)
def test_a_wrong_value_is_refused_by_both_sides_in_the_same_words(
    monkeypatch, name, value, allowed
):
    said = f"{name} is '{value}'; allowed: {allowed}. Set it in the environment."
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError) as by_server:
        read_settings()
    assert str(by_server.value) == f"settings are not allowed; correct:\n{said}"
    with pytest.raises(RunnerConfigError) as by_model:
        RunnerSettings.from_environment()
    assert str(by_model.value) == said


@pytest.mark.parametrize("whole", [1, 7, 2**53 + 1, 2**60 + 3])
def test_a_share_is_exact_to_the_byte(whole):
    assert (share_of(whole, 1), share_of(whole, 0.5)) == (whole, whole // 2)
    assert share_of(10 * whole, 0.3) == 3 * whole

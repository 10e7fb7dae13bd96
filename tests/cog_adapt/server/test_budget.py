"""How many bytes may be held, in all and by each owner."""

import math

import pytest

from cog_adapt.server.errors import BudgetSpent, TooLarge
from cog_adapt.server.settings import Settings
from cog_adapt.server.shares import budget as module
from cog_adapt.server.shares.budget import (
    Budget,
    MemoryBudgets,
    body_budget,
)


@pytest.fixture
def budget():
    return Budget("inputs", "QUEUE_BYTES", 100, 0.5)


def test_one_owner_may_use_a_share_and_who_has_no_name_all(budget):
    budget.take("ann", 50)
    with pytest.raises(BudgetSpent, match=r"your 50 bytes and 1 more exceed the 50 .*OWNER_SHARE"):
        budget.take("ann", 1)
    budget.take("bob", 50)
    budget.free("ann", 50)
    budget.free("bob", 50)
    budget.take("", 100)


def test_all_together_may_use_no_more_than_the_limit(budget):
    budget.take("ann", 40)
    budget.take("bob", 40)
    with pytest.raises(BudgetSpent, match=r"80 bytes are in use and 30 more exceed 100 \(QUEUE_"):
        budget.take("cid", 30)
    assert (budget.used, budget.used_by("cid")) == (80, 0)


def test_what_alone_is_too_large_is_told_so(budget):
    with pytest.raises(TooLarge, match=r"inputs: 51 bytes are more than the 50 .*OWNER_SHARE"):
        budget.take("ann", 51)
    budget.take("ann", 40)
    with pytest.raises(TooLarge, match="inputs: 51 bytes"):
        budget.take("ann", 11, held=40)
    with pytest.raises(TooLarge, match=r"101 bytes are more than the 100 .*\(QUEUE_BYTES\)"):
        budget.take("", 101)


def test_what_cannot_be_refused_is_counted(budget):
    budget.add("ann", 60)
    assert (budget.used, budget.is_over("ann"), budget.is_over("bob")) == (60, True, False)
    budget.add("", 41)
    assert budget.is_over("bob")


def test_the_limits_are_what_is_set_or_a_part_of_the_memory(monkeypatch):
    monkeypatch.setattr(module, "memory_bytes", lambda: 6400)
    budgets = MemoryBudgets.of(Settings(queue_bytes=10, owner_share=0.1))
    assert [each.most for each in budgets] == [10, 100, 800, 100]
    assert [each.setting for each in budgets] == [
        "QUEUE_BYTES",
        "EVENT_BYTES",
        "ANSWER_BYTES",
        "WEBHOOK_BYTES",
    ]
    assert budgets.queue.limit_of("ann") == 1
    assert body_budget(Settings()).most == 800
    assert body_budget(Settings(body_bytes=7)).most == 7


def test_cog_has_no_budgets():
    budgets = MemoryBudgets.of(Settings(strict_cog=True, queue_bytes=1))
    assert {each.most for each in (*budgets, body_budget(Settings(strict_cog=True)))} == {math.inf}

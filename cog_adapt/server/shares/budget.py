"""Budgets of bytes: in all, and for each owner.

A budget that is not set is a share of the machine's memory or disk, or of the cgroup's if that is
less; it is computed once, at the start.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from cog_adapt.machine import memory_bytes
from cog_adapt.owner_bytes import OwnerShares
from cog_adapt.server.errors import BudgetSpent, TooLarge
from cog_adapt.server.settings import Settings
from cog_adapt.shared_settings import share_of

_RETRY_AFTER: Final = 1


class Budget:
    """The budget of one use of memory or disk, in bytes. A budget belongs to one thread.

    Args:
        name: the name of the use, for metrics and messages.
        setting: the setting by which the operator changes the budget.
        most: the limit in bytes.
        share: the share of the limit that one owner may use, from 0 to 1; callers without a key are
            one owner without a name, who may use the whole limit.

    Attributes:
        reclaimers: functions that free something old; a function returns False if it has freed
            nothing.
    """

    def __init__(self, name: str, setting: str, most: float, share: float = 1.0) -> None:
        self.name = name
        self.setting = setting
        self.reclaimers: list[Callable[[], bool]] = []
        self._by_owner = OwnerShares(most, most * share, most_of_nobody=most)

    @property
    def most(self) -> float:
        """The bytes in all that may be used."""
        return self._by_owner.most

    @property
    def used(self) -> int:
        """The bytes in all that are used now."""
        return self._by_owner.bytes

    @property
    def most_of_owner(self) -> float:
        """The bytes that one owner with a name may use."""
        return self._by_owner.most_of_owner

    @property
    def largest(self) -> int:
        """The bytes of the named owner who uses the most."""
        return self._by_owner.largest

    def limit_of(self, owner: str) -> float:
        """Return the number of bytes that an owner may use at most."""
        return self._by_owner.most_of(owner)

    def used_by(self, owner: str) -> int:
        """Return the bytes that an owner uses now."""
        return self._by_owner.bytes_of(owner)

    def take(self, owner: str, size: int, held: int = 0) -> None:
        """Take bytes of the budget for an owner.

        Args:
            owner: the owner of the bytes; empty if no keys are set.
            size: the number of bytes.
            held: bytes of the same body, input or answer that were taken before.

        Raises:
            TooLarge: this alone is more than its owner may use.
            BudgetSpent: together with other uses it is too much now.
        """
        if not self._by_owner.fits(owner, size):
            raise self._refusal(owner, size, held)
        self.add(owner, size)

    def add(self, owner: str, size: int) -> None:
        """Count bytes that are used already."""
        self._by_owner.count(owner, size)

    def free(self, owner: str, size: int) -> None:
        """Return bytes of an owner to the budget."""
        self._by_owner.count(owner, -size)

    def is_over(self, owner: str) -> bool:
        """Return whether the use exceeds the limit, in all or for this owner."""
        while self.used > self.most and any(reclaim() for reclaim in self.reclaimers):
            pass
        return not self._by_owner.fits(owner, 0)

    def _refusal(self, owner: str, size: int, held: int) -> TooLarge | BudgetSpent:
        limit = self.limit_of(owner)
        by = f"{self.setting} and OWNER_SHARE" if owner else self.setting
        if held + size > limit:
            return TooLarge(
                f"{self.name}: {held + size} bytes are more than the {limit:.0f} that one caller "
                f"may use ({by}). Send less, or files as URLs."
            )
        if self._by_owner.lacking(owner, size):
            return BudgetSpent(
                f"{self.name}: your {self.used_by(owner)} bytes and {size} more exceed the "
                f"{limit:.0f} that one caller may use ({by}). Try again when others have ended.",
                _RETRY_AFTER,
            )
        return BudgetSpent(
            f"{self.name}: {self.used} bytes are in use and {size} more exceed {self.most:.0f} "
            f"({self.setting}). Try again later.",
            _RETRY_AFTER,
        )


@dataclass(frozen=True)
class MemoryBudgets:
    """The budgets of a server's memory.

    Attributes:
        queue: inputs of waiting and running predictions.
        events: events that the server keeps for clients that follow a prediction, live or later.
        answers: outputs, logs and metrics of running predictions.
        webhooks: webhooks that wait to be sent, or for a receiver's answer.
    """

    queue: Budget
    events: Budget
    answers: Budget
    webhooks: Budget

    @classmethod
    def of(cls, settings: Settings) -> "MemoryBudgets":
        """Make the budgets from the settings; Cog's own server has no such budgets."""
        return cls(
            queue=_in_memory(
                name="waiting inputs",
                setting="QUEUE_BYTES",
                most=settings.queue_bytes,
                part=8,
                settings=settings,
            ),
            events=_in_memory(
                name="events",
                setting="EVENT_BYTES",
                most=settings.event_bytes,
                part=64,
                settings=settings,
            ),
            answers=_in_memory(
                name="answers",
                setting="ANSWER_BYTES",
                most=settings.answer_bytes,
                part=8,
                settings=settings,
            ),
            webhooks=_in_memory(
                name="webhooks",
                setting="WEBHOOK_BYTES",
                most=settings.webhook_bytes,
                part=64,
                settings=settings,
            ),
        )

    def __iter__(self) -> Iterator[Budget]:
        return iter((self.queue, self.events, self.answers, self.webhooks))


def body_budget(settings: Settings) -> Budget:
    """Make the budget of bodies that are received and served."""
    return _in_memory(
        name="request bodies",
        setting="BODY_BYTES",
        most=settings.body_bytes,
        part=8,
        settings=settings,
    )


def _in_memory(name: str, setting: str, most: int | None, part: int, settings: Settings) -> Budget:
    if settings.strict_cog:
        return Budget(name, setting, math.inf)
    memory = share_of(memory_bytes(), settings.memory_share)
    return Budget(
        name=name, setting=setting, most=most or memory // part, share=settings.owner_share
    )

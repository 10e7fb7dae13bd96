"""Counts the memory of running work, in all and by owner. This module knows no schedule."""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from cog_adapt.owner_bytes import OwnerBytes, turns_of_one
from cog_adapt.runner.devices.memory import in_words
from cog_adapt.runner.scheduling.memory_demand import MemoryDemand


class Holder(Protocol):
    """Work that holds bytes for an owner."""

    @property
    def owner(self) -> str:
        """The owner; "" if no keys are set."""

    @property
    def bytes(self) -> int:
        """The bytes that the work asked for."""


H = TypeVar("H", bound=Holder)


class HeldMemory(Generic[H]):
    """The memory that work of one kind holds, and its limits.

    Args:
        limit: returns the bytes for all work; called only while no work holds any.
        owner_share: the part of these bytes for one owner with a name.
        most_at_once: pieces of running work; if eight or more, one owner has three quarters.
        setting: the name of the setting behind `most_at_once`, for messages.
    """

    def __init__(
        self,
        limit: Callable[[], int],
        owner_share: float = 1.0,
        most_at_once: int | None = None,
        setting: str = "",
    ) -> None:
        self._limit = limit
        self._owner_share = owner_share
        self._most_at_once = most_at_once
        self._setting = setting
        self._by_owner: OwnerBytes[H] = OwnerBytes(0, 0)

    @property
    def bytes(self) -> int:
        """The sum; any thread may read it."""
        return self._by_owner.bytes

    def __len__(self) -> int:
        """Count the pieces of work."""
        return len(self._by_owner)

    def ask_limit(self) -> None:
        """Ask for the limit again, provided that no held memory reduces it."""
        if not self._by_owner:
            most = self._limit()
            self._by_owner = OwnerBytes(most, int(most * self._owner_share), most_of_nobody=most)

    def add(self, work: H) -> None:
        """Give work the memory that it asks for."""
        self._by_owner.add((work.owner, work), work.bytes)

    def free(self, work: H) -> None:
        """Take back the memory of work, if it has any."""
        self._by_owner.discard((work.owner, work))

    def fits(self, work: H) -> bool:
        """Return whether work may run beside the running work."""
        has_room = self._by_owner.fits(work.owner, work.bytes)
        return has_room and not self._has_its_turns(work) and not self._is_full

    def most_of(self, owner: str) -> int:
        """Return the bytes that one owner may have."""
        return self._by_owner.most_of(owner)

    def is_share_over(self, work: H) -> bool:
        """Return whether other work of the same owner must end first."""
        is_shared = self.most_of(work.owner) < self._by_owner.most
        lacks_share = is_shared and self._by_owner.lacking(work.owner, work.bytes) > 0
        return self._has_its_turns(work) or lacks_share

    def words_of_wait(self, work: H, needed: MemoryDemand) -> str:
        """Return a sentence that says why work waits."""
        if self._has_its_turns(work):
            own = _counted(self._by_owner.count_of(work.owner), needed.work)
            return f"its turn: {own} of this owner under way, which is the limit ({self._setting})"
        others = _counted(len(self), needed.work)
        if self._is_full:
            return f"its turn: {others} under way, which is the limit ({self._setting})"
        if self.fits(work):
            return "its turn: an earlier one waits for more memory"
        taken = f"{in_words(self.bytes)} of {in_words(self._by_owner.most)}"
        return f"memory: it needs about {needed}; {taken} are taken, with {others} under way"

    @property
    def _is_full(self) -> bool:
        return self._most_at_once is not None and len(self) >= self._most_at_once

    def _has_its_turns(self, work: H) -> bool:
        most = self._most_at_once
        if most is None or not work.owner:
            return False
        return self._by_owner.count_of(work.owner) >= turns_of_one(most)


def _counted(count: int, work: str) -> str:
    return f"{count} other {work}{'s' if count > 1 else ''}"

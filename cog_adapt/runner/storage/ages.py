"""Removes adapters that have expired, or were unused for long."""

import logging
import time
from datetime import timedelta

from cog_adapt.deletion_clock import deletion_now
from cog_adapt.runner.errors import StoreError
from cog_adapt.runner.storage.index import Index, Key
from cog_adapt.runner.storage.known import KnownAdapters
from cog_adapt.runner.storage.tiers import Tiers

_CLEANING_SECONDS = 60.0  # between two checks of the ages of all adapters
logger = logging.getLogger(__name__)


class Ages:
    """The ages of all adapters.

    Args:
        known: their metadata.
        tiers: their tensors.
        days: without a use, after which an adapter is removed; 0: it is kept.
    """

    def __init__(self, known: KnownAdapters, tiers: Tiers, days: int) -> None:
        self._known = known
        self._tiers = tiers
        self._days = days
        self._next_cleaning = 0.0

    def remove_old_now_and_then(self) -> None:
        """Remove old adapters, unless that was done within the last minute."""
        if time.monotonic() >= self._next_cleaning:
            self.remove_old()

    def remove_old(self) -> None:
        """Remove adapters that have expired or were unused for long."""
        self._next_cleaning = time.monotonic() + _CLEANING_SECONDS
        old = _old(self._known.index, self._days)
        for key in [each for each in old if not self._known.is_unseen(each)]:
            try:
                self._tiers.forget(key)
            except StoreError as error:
                logger.warning(
                    "adapter %s has expired, but could not be removed: %s", key[1], error
                )
                continue
            self._known.forget(key)


def _old(index: Index, days: int) -> list[Key]:
    """Find adapters that have expired or were unused for so many days; 0: no limit."""
    now = deletion_now()
    oldest = (now - timedelta(days=days)).isoformat() if days else ""
    return [
        key
        for key, known in index.items()
        if known.is_expired(now) or (not known.is_kept and known.used_at < oldest)
    ]

"""The files of decisions: in the folder of adapters, or in the remote store where there is one.

This module knows names and bytes, and keeps nothing in memory.
"""

import logging
import os
from pathlib import Path

from cog_adapt.runner.data.files import write_whole
from cog_adapt.runner.errors import StoreError
from cog_adapt.runner.storage.remote import Remote

logger = logging.getLogger(__name__)


class DecisionFiles:
    """The decisions of all places.

    Args:
        root: the folder of adapters; what was written before there was a store is read there.
        remote: where decisions are written; None: in the folder.
    """

    def __init__(self, root: Path, remote: Remote | None) -> None:
        self._root = root
        self._remote = remote

    def names(self, place: str, key: str = "") -> dict[str, float]:
        """Return the names of a place's decisions, and the times of their last writes.

        Args:
            place: of the owner.
            key: of these decisions; "": of all. The folder's are returned in either case.
        """
        times = _times_in(self._folder(place))
        if self._remote:
            try:
                times |= self._remote.decisions(place, key)
            except StoreError as error:
                logger.warning("the decisions far away are left out: %s", error)
        return times

    def read(self, place: str, name: str) -> bytes | None:
        """Return a decision, or None."""
        try:
            return (self._folder(place) / name).read_bytes()
        except OSError:
            return self._read_far_away(place, name)

    def write(self, place: str, name: str, content: bytes) -> None:
        """Write a decision, whole or not at all (StoreError)."""
        if self._remote:
            self._remote.write_decision(place, name, content)
        else:
            write_whole(self._folder(place) / name, content)

    def remove(self, place: str, name: str) -> None:
        """Remove a decision; a failure is logged."""
        try:
            (self._folder(place) / name).unlink(missing_ok=True)
            if self._remote:
                self._remote.remove_decision(place, name)
        except (OSError, StoreError) as error:
            logger.warning("%s could not be removed: %s", name, error)

    def _read_far_away(self, place: str, name: str) -> bytes | None:
        try:
            return self._remote.read_decision(place, name) if self._remote else None
        except StoreError as error:
            logger.warning("decision %s is left out: %s", name, error)
            return None

    def _folder(self, place: str) -> Path:
        return (self._root / "owners" / place if place else self._root) / "decisions"


def _times_in(folder: Path) -> dict[str, float]:
    """Return the time of the last write of each file in a folder."""
    try:
        with os.scandir(folder) as entries:
            return {entry.name: entry.stat().st_mtime for entry in entries}
    except FileNotFoundError:
        return {}

"""The version numbers of names: each is given once, by whatever process or server.

In a folder a lock and `versions.json` see to that; beside a remote store, objects of the store do.
"""

from collections.abc import Mapping
from typing import Protocol

from cog_adapt.adapter_metadata import AdapterMetadata
from cog_adapt.adapter_rule import version_of
from cog_adapt.runner.storage.folder import Folder
from cog_adapt.runner.storage.index import Index
from cog_adapt.runner.storage.remote import Remote


class NextVersion(Protocol):
    """Gives a name's next version, above another one if need be."""

    def __call__(self, name: str, above: int = 0) -> int:
        """Return a version that was not given before (StoreError)."""


class Versions:
    """The versions of a place, while its lock is held.

    Args:
        place: of an owner.
        index: learns what other processes have given.
        folder: of the adapters.
        remote: the store, or None.
    """

    def __init__(self, place: str, index: Index, folder: Folder, remote: Remote | None) -> None:
        self._place = place
        self._folder = folder
        self._remote = remote
        index.note_last(place, folder.read_versions(place))
        self._last: Mapping[str, int] = index.last_versions(place)

    def next(self, name: str, above: int = 0) -> int:
        """Return a version that was not given before (StoreError)."""
        given = max(above, self._last.get(name, 0))
        if self._remote is None:
            return given + 1
        return self._remote.next_version(self._place, name, given)

    def note(self, known: AdapterMetadata) -> None:
        """Write down the version that an adapter has got (StoreError)."""
        if known.name is not None and version_of(known) > self._last.get(known.name, 0):
            self._last = {**self._last, known.name: version_of(known)}
            self._folder.write_versions(self._place, dict(self._last))

"""The copies of a remote store in a folder, compared with the store before their first use.

While this process did not run, another server may have removed or changed an adapter: the store has
the last word. This module keeps no tensors in memory.
"""

from collections.abc import Iterable, Iterator
from math import inf

from cog_adapt.adapter_metadata import AdapterMetadata
from cog_adapt.runner.storage.folder import Folder
from cog_adapt.runner.storage.index import Index, Key, place_of
from cog_adapt.runner.storage.metadata import with_uses
from cog_adapt.runner.storage.remote import Remote
from cog_adapt.runner.storage.unsent import Unsent

_CLOCKS_DIFFER = 3600.0  # seconds, at most, between the clocks of this host and of the store


class StoreCopies:
    """The copies that this process has not compared yet.

    Args:
        folder: of the copies.
        remote: the store.
        found: the copies in the folder when the process began.
    """

    def __init__(self, folder: Folder, remote: Remote, found: Iterable[Key]) -> None:
        self._folder = folder
        self._remote = remote
        self._unsent = Unsent(folder, remote.url)
        self._unseen = {*found}

    def is_unseen(self, key: Key) -> bool:
        """Return whether a copy may differ from the store."""
        return key in self._unseen

    def note(self, key: Key) -> None:
        """Accept an adapter as current, since its last change was told or made here."""
        self._unseen.discard(key)

    def news(self, index: Index, place: str | None) -> Iterator[tuple[Key, AdapterMetadata | None]]:
        """Yield what the store has and the index lacks; None for copies of removed adapters.

        The files of removed adapters are removed here.

        Args:
            index: of this process.
            place: of an owner; None: of all.

        Raises:
            StoreError: the store cannot be read; the copies stay unseen.
        """
        unseen = {key for key in [*self._unseen] if place in (None, key[0])}
        for key, written in self._remote.times(place):
            unseen.discard(key)
            yield from self._of_listed(key, written, index)
        for key in unseen:
            yield from self._of_missing(key, index)

    def _of_listed(
        self, key: Key, written: float, index: Index
    ) -> Iterator[tuple[Key, AdapterMetadata]]:
        """Read an adapter that the store has, unless it is known here as it is there."""
        before = index.get(key)
        if before is not None and (key not in self._unseen or self._is_later(key, written)):
            self._unseen.discard(key)
            return
        known = self._current(key)
        self._unseen.discard(key)
        if known is None:  # it was removed just now, of which a server is told
            return
        known = with_uses(known, before)
        if before is not None:
            self._folder.write_metadata(key, known)
            self._unsent.clear(key)
        if known != before:
            yield key, known

    def _of_missing(self, key: Key, index: Index) -> Iterator[tuple[Key, AdapterMetadata | None]]:
        """Remove a copy that the store has no more, or has not listed; one that it lacks stays."""
        if key in self._unsent or not self._unsent.is_copy():
            self._unseen.discard(key)
        elif self._remote.read_metadata(key) is None:
            self._folder.remove(key)
            yield key, None
        else:
            yield from self._of_listed(key, inf, index)

    def _is_later(self, key: Key, written: float) -> bool:
        """Return whether a copy's metadata was written well after the store's."""
        return written + _CLOCKS_DIFFER < self._folder.written_at(key)

    def _current(self, key: Key) -> AdapterMetadata | None:
        known = self._remote.read_metadata(key)
        is_its_own = known and known.id == key[1] and place_of(known.owner) == key[0]
        return known if is_its_own else None

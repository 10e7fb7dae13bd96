"""What is known of every adapter: found, changed, written beside the files, told to watchers.

This module reads no tensors.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from cog_adapt.runner.errors import AdapterNotFound, StoreError
from cog_adapt.runner.storage.folder import Folder
from cog_adapt.runner.storage.index import Index, Key, place_of
from cog_adapt.runner.storage.metadata import Metadata, now
from cog_adapt.runner.storage.names import Reference, not_found, parse_reference
from cog_adapt.runner.storage.remote import Remote

Watcher = Callable[[str, str, dict[str, Any] | None], None]
NextVersion = Callable[[str], int]
_WRITE_USES_SECONDS = 60.0  # how late the files may know of hits and last use
logger = logging.getLogger(__name__)


class KnownAdapters:
    """The metadata of all owners' adapters.

    Args:
        folder: where the adapters lie.
        remote: where copies of them lie; None: nowhere.
    """

    def __init__(self, folder: Folder, remote: Remote | None) -> None:
        self.index = Index()
        self._folder = folder
        self._remote = remote
        self._used: dict[Key, float] = {}
        self._watchers: list[Watcher] = []
        self._lock = threading.RLock()
        for place in folder.places():
            self._take_in(place, None)

    def find(self, text: str, owner: str) -> Key:
        """Find the adapter that an owner calls so, its own or one that is shared.

        Raises:
            AdapterNotFound: none.
        """
        reference = parse_reference(text)
        try:
            return self._find(reference, owner, text)
        except AdapterNotFound:
            self.refresh(owner)
            return self._find(reference, owner, text)

    def own(self, adapter_id: str, owner: str) -> Key:
        """Find an adapter that an owner has, by id (AdapterNotFound)."""
        key = (place_of(owner), adapter_id)
        if key not in self.index:
            self.refresh(owner)
        known = self.index.get(key)
        if known is None or known.is_expired():
            raise not_found(adapter_id)
        return key

    def of(self, key: Key) -> Metadata:
        """Return what is known of an adapter (AdapterNotFound: it was removed meanwhile)."""
        known = self.index.get(key)
        if known is None:
            raise not_found(key[1])
        return known

    def add(self, key: Key, known: Metadata) -> None:
        """Note an adapter; one that is known already stays as it is (StoreError)."""
        with self._lock:
            if key in self.index:
                return
            self.index[key] = known
        self._write(key)

    def change(self, key: Key, change: Callable[[Metadata, NextVersion], Metadata]) -> Metadata:
        """Change what is known of an adapter (StoreError, AdapterNotFound)."""
        place = key[0]
        with self._lock:
            last = self.index.last_versions(place)
            changed = self.index[key] = change(self.of(key), lambda name: last.get(name, 0) + 1)
            if self.index.last_versions(place) != last:
                self._folder.write_versions(place, self.index.last_versions(place))
        self._write(key)
        return changed

    def note_use(self, key: Key) -> None:
        """Count a use; the files know of it a minute later, if there is another, or at the end."""
        with self._lock:
            known = self.index.get(key)
            if known is None:  # removed while it was read, which costs no answer
                return
            self.index[key] = replace(known, hits=known.hits + 1, used_at=now())
            first = self._used.setdefault(key, time.monotonic())
        if time.monotonic() - first >= _WRITE_USES_SECONDS:
            self._write_use(key)

    def write_uses(self) -> None:
        """Write the uses that the files do not know of."""
        for key in [*self._used]:
            self._write_use(key)

    def forget(self, key: Key) -> None:
        """Know an adapter no more, whose files are gone."""
        with self._lock:
            if key not in self.index:
                return
            owner = self.index[key].owner
            del self.index[key]
            self._used.pop(key, None)
        self._tell(owner, key[1], None)

    def watch(self, watcher: Watcher) -> None:
        """Call with owner, id and metadata at each change, on its thread; None: it is gone."""
        self._watchers.append(watcher)

    def refresh(self, owner: str | None) -> None:
        """Take in what another process, or an earlier version, left; None: of all owners."""
        places = [*self._folder.places()] if owner is None else [place_of(owner)]
        for place in places:
            self._take_in(place, owner)
        if self._remote:
            for key, known in _new_far_away(self.index, self._remote, owner):
                self._note(key, known)

    def _find(self, reference: Reference, owner: str, text: str) -> Key:
        with self._lock:
            return self.index.find(reference, owner, text)

    def _take_in(self, place: str, owner: str | None) -> None:
        self.index.note_last(place, self._folder.read_versions(place))
        for key, known in _new_here(self.index, self._folder, place, owner):
            self._note(key, known)

    def _note(self, key: Key, known: Metadata) -> None:
        with self._lock:
            before = self.index[key].owner if key in self.index else known.owner
            self.index[key] = known
        if before != known.owner:  # a place has got its owner's name
            self._tell(before, key[1], None)
        self._tell(known.owner, key[1], known)

    def _write_use(self, key: Key) -> None:
        """Write a use; that it cannot be written must not cost an answer."""
        self._used.pop(key, None)
        try:
            known = self.of(key)
            self._folder.write_metadata(key, known)
        except (StoreError, AdapterNotFound) as error:
            logger.warning("the last use of adapter %s is not written: %s", key[1], error)
            return
        self._tell(known.owner, key[1], known)

    def _write(self, key: Key) -> None:
        known = self.index.get(key)
        if known is None:  # removed meanwhile
            return
        self._folder.write_metadata(key, known)
        self._tell(known.owner, key[1], known)
        if self._remote is None:
            return
        try:
            self._remote.write_metadata(key, known)
        except StoreError as error:
            logger.warning("what is known of adapter %s lies on this disk only: %s", key[1], error)

    def _tell(self, owner: str, adapter_id: str, known: Metadata | None) -> None:
        for watcher in self._watchers:
            watcher(owner, adapter_id, known.to_json() if known else None)


def _new_here(
    index: Index, folder: Folder, place: str, owner: str | None
) -> Iterator[tuple[Key, Metadata]]:
    """Yield what a place's folder has that is not known yet, or not as this owner's."""
    for adapter_id in folder.ids(place):
        key = (place, adapter_id)
        before = index.get(key)
        is_new = before is None or (owner is not None and before.owner != owner)
        known = folder.read_metadata(key, owner) if is_new else None
        if known:
            yield key, known


def _new_far_away(
    index: Index, remote: Remote, owner: str | None
) -> Iterator[tuple[Key, Metadata]]:
    """Yield what a store far away has of an owner's that is not known yet; None: of all."""
    for key in remote.keys(None if owner is None else place_of(owner)):
        known = remote.read_metadata(key) if key not in index else None
        if known and known.id == key[1] and place_of(known.owner) == key[0]:
            yield key, known

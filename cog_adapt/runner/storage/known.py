"""The metadata of all adapters: looked up, changed, saved as JSON, sent to watchers.

This module reads no tensors.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from cog_adapt.adapter_metadata import AdapterMetadata
from cog_adapt.adapter_rule import (
    Asker,
    Reference,
    SeveralOwners,
    parse_reference,
)
from cog_adapt.runner.errors import AdapterNotFound, InputError, StoreError
from cog_adapt.runner.storage.folder import Folder
from cog_adapt.runner.storage.index import Index, Key, place_of
from cog_adapt.runner.storage.metadata import now
from cog_adapt.runner.storage.names import not_found
from cog_adapt.runner.storage.remote import Remote
from cog_adapt.runner.storage.seen_files import SeenFiles
from cog_adapt.runner.storage.versions import NextVersion, Versions

Watcher = Callable[[str, str, dict[str, Any] | None], None]

MetadataChange = Callable[[AdapterMetadata, NextVersion], AdapterMetadata]
WRITE_USES_SECONDS = 60.0  # how late the files may learn of hits and last uses
logger = logging.getLogger(__name__)


class KnownAdapters:
    """The metadata of all owners' adapters.

    Args:
        folder: the folder of the adapters.
        remote: the remote store with copies of the adapters; None: no remote store.
    """

    def __init__(self, folder: Folder, remote: Remote | None) -> None:
        self.index = Index()
        self._folder = folder
        self._files = SeenFiles(folder, is_shared=remote is None)
        self._remote = remote
        self._used: dict[Key, float] = {}
        self._watchers: list[Watcher] = []
        self._lock = threading.RLock()
        for place in folder.places():
            self._take_in(place, None)

    def find(self, text: str, asker: Asker) -> Key:
        """Find the adapter that a reference means to an asker.

        Raises:
            AdapterNotFound: there is none.
            InputError: the reference fits adapters of several owners.
        """
        reference = parse_reference(text)
        found = self._find(reference, asker)
        if found is None:
            self.refresh(None if asker.sees_all else asker.owner)
            found = self._find(reference, asker)
        if found is None:
            raise not_found(text)
        return found

    def own(self, adapter_id: str, owner: str) -> Key:
        """Find an owner's own adapter by id (AdapterNotFound)."""
        key = (place_of(owner), adapter_id)
        if key not in self.index:
            self.refresh(owner)
        known = self.index.get(key)
        if known is None or known.is_expired():
            raise not_found(adapter_id)
        return key

    def of(self, key: Key) -> AdapterMetadata:
        """Return an adapter's metadata (AdapterNotFound: it was removed meanwhile)."""
        known = self.index.get(key)
        if known is None:
            raise not_found(key[1])
        return known

    def add(self, key: Key, known: AdapterMetadata) -> None:
        """Add an adapter; the metadata of a known one stays (StoreError)."""
        with self._lock:
            if key in self.index:
                return
            self.index[key] = known
        self._write(key)

    def change(self, key: Key, change: MetadataChange) -> AdapterMetadata:
        """Change an adapter's metadata (StoreError, AdapterNotFound)."""
        place = key[0]
        with self._folder.locked(place):
            versions = Versions(place, index=self.index, folder=self._folder, remote=self._remote)
            changed = change(self._written(key), versions.next)
            versions.note(changed)
            with self._lock:
                self.index[key] = changed
            self._write(key)
        return changed

    def note(self, key: Key, known: AdapterMetadata) -> None:
        """Take over metadata that another process wrote; watchers are not called."""
        last = _last(self._folder, key, known, is_copy=self._remote is not None)
        if last is not None:
            with self._lock:
                self.index[key] = _with_uses(last, self.index.get(key))

    def note_use(self, key: Key) -> None:
        """Count a use; files are updated at the next use a minute later, or at the end."""
        with self._lock:
            known = self.index.get(key)
            if known is None:  # it was removed while it was read, which affects no answer
                return
            self.index[key] = replace(known, hits=known.hits + 1, used_at=now())
            first = self._used.setdefault(key, time.monotonic())
        if time.monotonic() - first >= WRITE_USES_SECONDS:
            self._write_use(key)

    def write_uses(self) -> None:
        """Write the uses that the files lack."""
        for key in [*self._used]:
            self._write_use(key)

    def forget(self, key: Key) -> None:
        """Remove an adapter from the index; its files are gone."""
        with self._lock:
            if key not in self.index:
                return
            owner = self.index[key].owner
            del self.index[key]
            self._used.pop(key, None)
        self._tell(owner, key[1], None)

    def watch(self, watcher: Watcher) -> None:
        """Call `watcher` with owner, id and metadata at each change; None: removed."""
        self._watchers.append(watcher)

    def refresh(self, owner: str | None) -> None:
        """Read what other processes or versions added, changed, removed; None: of all owners."""
        places = [*self._folder.places()] if owner is None else [place_of(owner)]
        for place in places:
            self._take_in(place, owner)
        if self._remote:
            for key, known in _new_far_away(self.index, self._remote, owner):
                self._note(key, known)

    def _find(self, reference: Reference, asker: Asker) -> Key | None:
        try:
            with self._lock:
                return self.index.find(reference, asker)
        except SeveralOwners as error:
            raise InputError(str(error)) from error

    def _take_in(self, place: str, owner: str | None) -> None:
        self.index.note_last(place, self._folder.read_versions(place))
        for key, known in self._files.news(self.index, place, owner):
            self.forget(key) if known is None else self._note(key, known)

    def _note(self, key: Key, known: AdapterMetadata) -> None:
        with self._lock:
            here = self.index.get(key)
            before, known = here.owner if here else known.owner, _with_uses(known, here)
            self.index[key] = known
        if before != known.owner:  # the place now has its owner's name
            self._tell(before, key[1], None)
        self._tell(known.owner, key[1], known)

    def _written(self, key: Key) -> AdapterMetadata:
        """Return the metadata on disk, which another process may have changed (AdapterNotFound)."""
        known, written = self.of(key), self._folder.read_written(key)
        if written is None and self._remote is None and not self._folder.holds(key):
            raise not_found(key[1])
        return known if written is None else _with_uses(written, known)

    def _write_use(self, key: Key) -> None:
        """Write a use; a failed write must not cost an answer."""
        self._used.pop(key, None)
        try:
            with self._folder.locked(key[0]):
                known = self._written(key)
                self._folder.write_metadata(key, known)
            with self._lock:
                self.index[key] = known
        except (StoreError, AdapterNotFound) as error:
            logger.warning("the last use of adapter %s is not written: %s", key[1], error)
            return
        self._tell(known.owner, key[1], known)

    def _write(self, key: Key) -> None:
        known = self.index.get(key)
        if known is None:  # the adapter was removed meanwhile
            return
        self._folder.write_metadata(key, known)
        self._tell(known.owner, key[1], known)
        if self._remote is not None:
            _write_far_away(self._remote, key, known)

    def _tell(self, owner: str, adapter_id: str, known: AdapterMetadata | None) -> None:
        for watcher in self._watchers:
            watcher(owner, adapter_id, known.to_json() if known else None)


def _write_far_away(remote: Remote, key: Key, known: AdapterMetadata) -> None:
    """Write metadata to the remote store too; a failed write does not undo the change."""
    try:
        remote.write_metadata(key, known)
    except StoreError as error:
        logger.warning("the metadata of adapter %s is on this disk only: %s", key[1], error)


def _last(
    folder: Folder, key: Key, known: AdapterMetadata, *, is_copy: bool
) -> AdapterMetadata | None:
    """Return the last metadata of an adapter; None if it was removed.

    Args:
        folder: of the adapters.
        key: of the adapter.
        known: what another process has just written.
        is_copy: whether `folder` only copies a remote store; then its file changes too
            (StoreError). Else it is shared, and may have changed again.
    """
    written = folder.read_written(key)
    if is_copy:
        if written is not None:
            folder.write_metadata(key, known)
        return known
    return known if written is None and folder.holds(key) else written


def _with_uses(known: AdapterMetadata, here: AdapterMetadata | None) -> AdapterMetadata:
    """Add the uses that this process has counted."""
    if here is None or here.hits <= known.hits:
        return known
    return replace(known, hits=here.hits, used_at=max(here.used_at, known.used_at))


def _new_far_away(
    index: Index, remote: Remote, owner: str | None
) -> Iterator[tuple[Key, AdapterMetadata]]:
    """Yield an owner's adapters in the remote store that the index lacks; None: of all owners."""
    for key in remote.keys(None if owner is None else place_of(owner)):
        known = remote.read_metadata(key) if key not in index else None
        if known and known.id == key[1] and place_of(known.owner) == key[0]:
            yield key, known

"""The metadata of all adapters: looked up, changed, saved as JSON, sent to watchers.

This module reads no tensors.
"""

import logging
import threading
import time
from collections.abc import Callable
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
from cog_adapt.runner.storage.copies import StoreCopies
from cog_adapt.runner.storage.folder import Folder
from cog_adapt.runner.storage.index import Index, Key, place_of
from cog_adapt.runner.storage.metadata import now, with_uses
from cog_adapt.runner.storage.names import not_found
from cog_adapt.runner.storage.remote import Remote
from cog_adapt.runner.storage.seen_files import SeenFiles
from cog_adapt.runner.storage.unsent import Unsent
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
        self._unsent = Unsent(folder, remote.url) if remote else None
        if self._unsent is not None:
            _begin(self._unsent)
        self._used: dict[Key, float] = {}
        self._watchers: list[Watcher] = []
        self._lock = threading.RLock()
        for place in folder.places():
            self._take_in(place, None)
        found = (key for key, _ in self.index.items())
        self._copies = StoreCopies(folder, remote, found) if remote else None

    def find(self, text: str, asker: Asker) -> Key:
        """Find the adapter that a reference means to an asker.

        Raises:
            AdapterNotFound: there is none.
            InputError: the reference fits adapters of several owners.
            StoreError: the remote store, which may have removed it, cannot be read.
        """
        reference = parse_reference(text)
        found = self._find(reference, asker)
        while found is not None and self.is_unseen(found):
            self._read_far_away(found[0])  # all of that place is seen then
            found = self._find(reference, asker)
        if found is None:
            self.refresh(None if asker.sees_all else asker.owner)
            found = self._find(reference, asker)
        if found is None:
            raise not_found(text)
        return found

    def own(self, adapter_id: str, owner: str) -> Key:
        """Find an owner's own adapter by id (AdapterNotFound, StoreError)."""
        key = (place_of(owner), adapter_id)
        if key not in self.index or self.is_unseen(key):
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

    def expect(self, key: Key) -> None:
        """Make sure that an adapter which is made now is not taken for an earlier, removed one."""
        if self._unsent is None or not self.is_unseen(key):
            return
        try:
            self._read_far_away(key[0])
        except StoreError as error:
            logger.warning("adapter %s counts as new: %s", key[1], error)
            self._drop(key)
            self._unsent.mark(key)

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
            changed = change(self._latest(key), versions.next)
            if self._remote and not self._is_here_alone(key):
                self._remote.write_metadata(key, changed)
            versions.note(changed)
            with self._lock:
                self.index[key] = changed
            self._write(key)
        return changed

    def note(self, key: Key, known: AdapterMetadata) -> None:
        """Take over metadata that another process wrote; watchers are not called."""
        if self._copies:
            self._copies.note(key)
        last = _last(self._folder, key, known, is_copy=self._remote is not None)
        if last is not None:
            with self._lock:
                self.index[key] = with_uses(last, self.index.get(key))

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
        gone = self._drop(key)
        if gone is not None:
            self._tell(gone.owner, key[1], None)

    def lose(self, key: Key) -> None:
        """Remove an adapter whose tensors are missing: beside a remote store from the index alone.

        Who has removed it there has told all servers; who has not sent it yet still has it.
        """
        self._drop(key) if self._remote else self.forget(key)

    def watch(self, watcher: Watcher) -> None:
        """Call `watcher` with owner, id and metadata at each change; None: removed."""
        self._watchers.append(watcher)

    def refresh(self, owner: str | None) -> None:
        """Read what other processes or versions added, changed, removed; None: of all owners."""
        self._read_far_away(None if owner is None else place_of(owner))
        places = [*self._folder.places()] if owner is None else [place_of(owner)]
        for place in places:
            self._take_in(place, owner)

    def is_unseen(self, key: Key) -> bool:
        """Return whether the remote store may have changed or removed an adapter meanwhile."""
        return self._copies is not None and self._copies.is_unseen(key)

    def _is_here_alone(self, key: Key) -> bool:
        return self._unsent is None or key in self._unsent

    def _read_far_away(self, place: str | None) -> None:
        """Take over what the remote store has; None: of all places (StoreError)."""
        for key, known in self._copies.news(self.index, place) if self._copies else ():
            self._drop(key) if known is None else self._note(key, known)

    def _drop(self, key: Key) -> AdapterMetadata | None:
        """Remove an adapter from the index, and return what was known of it."""
        with self._lock:
            known = self.index.get(key)
            if known is not None:
                del self.index[key]
            self._used.pop(key, None)
        if self._copies:
            self._copies.note(key)
        return known

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
            before, known = here.owner if here else known.owner, with_uses(known, here)
            self.index[key] = known
        if before != known.owner:  # the place now has its owner's name
            self._tell(before, key[1], None)
        self._tell(known.owner, key[1], known)

    def _latest(self, key: Key) -> AdapterMetadata:
        """Return the metadata that a change begins from (AdapterNotFound, StoreError)."""
        if self._remote is None or self._is_here_alone(key):
            return self._written(key)
        known = self._remote.read_metadata(key)
        if known is None:
            raise not_found(key[1])
        return with_uses(known, self.of(key))

    def _written(self, key: Key) -> AdapterMetadata:
        """Return the metadata on disk, which another process may have changed (AdapterNotFound)."""
        known, written = self.of(key), self._folder.read_written(key)
        if written is None and self._remote is None and not self._folder.holds(key):
            raise not_found(key[1])
        return known if written is None else with_uses(written, known)

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

    def _tell(self, owner: str, adapter_id: str, known: AdapterMetadata | None) -> None:
        for watcher in self._watchers:
            watcher(owner, adapter_id, known.to_json() if known else None)


def _begin(unsent: Unsent) -> None:
    try:
        unsent.begin()
    except StoreError as error:
        logger.warning("the folder of adapters cannot become a copy of ADAPTER_STORE: %s", error)


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

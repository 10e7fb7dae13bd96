"""`AdapterStore`: every adapter of every owner, found by id or name, on any thread.

What is known of an adapter lies beside its file, so that a folder is all that there is: no
database is needed, and one from before there was metadata is taken in.
"""

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

from cog_adapt.adapter_rule import Asker, version_of
from cog_adapt.deletion_clock import deletion_now
from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.errors import AdapterNotFound, InputError, StoreError
from cog_adapt.runner.modules.adapters import Adapter
from cog_adapt.runner.storage.budgets import StorageBudgets, budgets_of
from cog_adapt.runner.storage.decisions import Decisions
from cog_adapt.runner.storage.folder import Folder
from cog_adapt.runner.storage.index import Index, Key, place_of
from cog_adapt.runner.storage.known import KnownAdapters, NextVersion, Watcher
from cog_adapt.runner.storage.metadata import Metadata, Provenance
from cog_adapt.runner.storage.names import not_found
from cog_adapt.runner.storage.remote import Remote
from cog_adapt.runner.storage.tiers import Tiers

_UNBOUNDED = StorageBudgets(memory=2**62, memory_of_owner=2**62, disk=2**62, disk_of_owner=2**62)
_CLEANING_SECONDS = 60.0  # between looks at the age of all
logger = logging.getLogger(__name__)


class AdapterStore:
    """The adapters of a folder.

    Which of them a reference means, and who may use it, is `cog_adapt.adapter_rule`'s to say; ""
    is who asks where there are no owners, as under plain Cog.

    Args:
        folder: made when the first adapter is put.
        budgets: bytes in memory and on disk, and age; None: without bounds.
        remote: where what the disk lets go stays; None: nowhere.
        serves: whether it answers requests, which others' changes to the folder reach late: then
            commands do not change it.
    """

    def __init__(
        self,
        folder: Path,
        budgets: StorageBudgets | None = None,
        remote: Remote | None = None,
        *,
        serves: bool = False,
    ) -> None:
        self._budgets = budgets or _UNBOUNDED
        self._folder = Folder(folder)
        self._serves = serves
        if serves:
            self._folder.use()
        self._tiers = Tiers(self._folder, self._budgets, remote)
        self._known = KnownAdapters(self._folder, remote)
        self.decisions = Decisions(folder)  # each goes with its adapter
        self._known.watch(self.decisions.on_change)
        self._next_cleaning = 0.0
        for key, known in self._known.index.items():
            if self._folder.holds(key):
                self._tiers.note(key, known.bytes)

    def put(self, adapter: Adapter, owner: str = "", made: Provenance | None = None) -> Path:
        """Keep an adapter, whole or not at all; the same content is written once for an owner.

        Raises:
            StoreError: the disk, or its budget, is full; it is known while memory has it.
        """
        if time.monotonic() >= self._next_cleaning:
            self._remove_old()
        key = (place_of(owner), adapter.id)
        content = adapter.to_bytes()
        path, gone = self._tiers.write(key, adapter, content, index=self._known.index)
        if self._serves:
            self._folder.use()  # there may have been no folder before
        self._forget(gone)
        known = Metadata.of(adapter, size=len(content), owner=owner, made=made or Provenance())
        self._known.add(key, known)
        self._tiers.write_through(key)
        return path

    def get(self, reference: str, owner: str = "", *, sees_all: bool = False) -> Adapter:
        """Return the adapter that an owner calls so, by id, `name` or `name@v2`: it is used.

        Args:
            reference: what it is called.
            owner: who asks.
            sees_all: whether the owner may use others' too.

        Raises:
            AdapterNotFound: this owner has no such adapter, and nobody shares one.
            InputError: several owners share one of that name.
            WeightsError: the file is damaged.
            StoreError: the store far away cannot be read.
        """
        try:
            key = self._known.find(reference, Asker(owner, sees_all))
        except AdapterNotFound:
            own = (place_of(owner), reference)
            is_unwritten = own not in self._known.index  # as where the disk is full
            adapter = self._tiers.recent(own) if is_unwritten else None
            if adapter is None:
                raise
            return adapter
        adapter = self._content(key)
        self._known.note_use(key)
        return adapter

    def peek(self, reference: str, owner: str) -> Adapter:
        """Return what `get` does, and do not count it as a use."""
        return self._content(self._known.find(reference, Asker(owner)))

    def known(self, reference: str, owner: str) -> Metadata:
        """Return what is known of an adapter that an owner may use (AdapterNotFound)."""
        return self._known.of(self._known.find(reference, Asker(owner)))

    def describe(self, owner: str | None) -> list[Metadata]:
        """Return what is known of the adapters of an owner, oldest first; None: of all owners."""
        self._known.refresh(owner)
        self._remove_old()
        place = None if owner is None else place_of(owner)
        known = (known for _, known in self._known.index.items(place))
        return sorted(known, key=lambda each: (each.created_at, each.id))

    def change(
        self, adapter_id: str, owner: str, change: Callable[[Metadata, NextVersion], Metadata]
    ) -> Metadata:
        """Change what is known of an owner's own adapter.

        Args:
            adapter_id: not a name.
            owner: who has it.
            change: gives what is known from now on; it is handed what is known, and what gives the
                next version of a name.

        Raises:
            AdapterNotFound: this owner has no such adapter.
            StoreError: the disk is full.
        """
        return self._known.change(self._known.own(adapter_id, owner), change)

    def remove(self, adapter_id: str, owner: str) -> list[str]:
        """Remove an owner's own adapter everywhere; return the ids that were made from it.

        Raises:
            AdapterNotFound: this owner has no such adapter.
            StoreError: a file cannot be removed.
        """
        key = self._known.own(adapter_id, owner)
        items = self._known.index.items(key[0])
        children = [known.id for _, known in items if known.parent == adapter_id]
        self._tiers.forget(key)
        self._forget([key])
        return children

    def give(self, adapter_id: str, owner: str, receiver: str) -> Metadata:
        """Move an owner's own adapter to another owner, with its name and how it was made.

        Returns:
            What is known of it now: its version is the receiver's next, if theirs is as late.

        Raises:
            AdapterNotFound: this owner has no such adapter.
            InputError: the receiver has it already.
            StoreError: the disk, or the receiver's budget, is full.
        """
        key, there = self._known.own(adapter_id, owner), (place_of(receiver), adapter_id)
        self._known.refresh(receiver)
        if there in self._known.index:
            raise InputError(
                f"{receiver!r} has adapter {adapter_id} already. Remove one of the two."
            )
        given, adapter = self._known.of(key), self._content(key)
        _, gone = self._tiers.write(there, adapter, adapter.to_bytes(), index=self._known.index)
        self._forget(gone)
        self._known.add(there, replace(given, owner=receiver, name=None, version=None))
        self._tiers.write_through(there)
        if given.name is not None:
            self._known.change(there, partial(_named_as, given))
        self.decisions.copy(owner, adapter_id, receiver)
        self.remove(adapter_id, owner)
        return self._known.of(there)

    def note(self, adapter_id: str, owner: str, known: Metadata | None) -> None:
        """Know an adapter as another process has written it; None: it is gone from here too."""
        key = (place_of(owner), adapter_id)
        if known is None:
            self._tiers.let_go(key)
            self._known.forget(key)
            return
        self._known.note(key, known)
        if self._folder.holds(key):
            self._tiers.note(key, known.bytes)

    def watch(self, watcher: Watcher) -> None:
        """Call with owner, id and metadata at each change, on its thread; None: it is gone."""
        self._known.watch(watcher)

    def close(self) -> None:
        """Write the uses that the files do not know of yet."""
        self._known.write_uses()
        self._folder.close()

    def is_served(self) -> bool:
        """Return whether a store on this folder answers requests, in any process here."""
        return self._folder.is_in_use()

    def gauges(self) -> dict[str, float]:
        """Numbers for a server's metrics: bytes, count, hits and misses of each tier."""
        return self._tiers.gauges()

    def _content(self, key: Key) -> Adapter:
        adapter = self._tiers.recent(key)
        if adapter is not None:
            return adapter
        try:
            adapter, gone = self._tiers.read(key, self._known.index)
        except AdapterNotFound:
            self._known.forget(key)  # its file was removed by hand
            raise
        self._forget(gone)
        if key not in self._known.index:  # it was removed while it was read
            self._tiers.let_go(key)
            raise not_found(key[1])
        return adapter

    def _forget(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self._known.forget(key)

    def _remove_old(self) -> None:
        """Remove what is expired, and what nobody used for long."""
        self._next_cleaning = time.monotonic() + _CLEANING_SECONDS
        for key in _old(self._known.index, self._budgets.days):
            try:
                self._tiers.forget(key)
            except StoreError as error:
                logger.warning("adapter %s is over its time, and stays: %s", key[1], error)
                continue
            self._known.forget(key)


def _named_as(given: Metadata, known: Metadata, next_version: NextVersion) -> Metadata:
    """Give a name and version that another owner gave, or the next where that is taken."""
    name = given.name or ""
    version = max(version_of(given), next_version(name))
    return replace(known, name=name, version=version)


def _old(index: Index, days: int) -> list[Key]:
    """Find what is expired, and what nobody used for so many days; 0: for ever."""
    now = deletion_now()
    oldest = (now - timedelta(days=days)).isoformat() if days else ""
    return [
        key
        for key, known in index.items()
        if known.is_expired(now) or (not known.is_kept and known.used_at < oldest)
    ]


def store_of(settings: RunnerSettings) -> AdapterStore:
    """Open the store that the settings name, to answer requests."""
    remote = Remote(settings.adapter_store) if settings.adapter_store else None
    folder = settings.weights_dir / "adapters"
    return AdapterStore(folder, budgets_of(settings), remote, serves=True)

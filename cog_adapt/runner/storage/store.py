"""`AdapterStore`: every adapter of every owner, found by id or name, on any thread.

An adapter's metadata lies beside its file, so a folder is the whole store: it needs no database,
and adapters from before there was metadata are read too.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from cog_adapt.adapter_metadata import AdapterMetadata, Provenance
from cog_adapt.adapter_rule import Asker, version_of
from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.errors import AdapterNotFound, InputError
from cog_adapt.runner.modules.adapters import Adapter
from cog_adapt.runner.storage.ages import Ages
from cog_adapt.runner.storage.budgets import StorageBudgets, budgets_of
from cog_adapt.runner.storage.decisions import Decisions
from cog_adapt.runner.storage.folder import Folder
from cog_adapt.runner.storage.index import Key, place_of
from cog_adapt.runner.storage.known import KnownAdapters, MetadataChange, Watcher
from cog_adapt.runner.storage.metadata import describe
from cog_adapt.runner.storage.names import not_found
from cog_adapt.runner.storage.remote import Remote
from cog_adapt.runner.storage.serving import Serving
from cog_adapt.runner.storage.tiers import Tiers
from cog_adapt.runner.storage.versions import NextVersion

_UNBOUNDED = StorageBudgets(memory=2**62, memory_of_owner=2**62, disk=2**62, disk_of_owner=2**62)


class AdapterStore:
    """The adapters of a folder.

    `cog_adapt.adapter_rule` decides which adapter a reference means and who may use it. Without API
    keys (plain Cog) the owner is "".

    Args:
        folder: the folder, which is made when the first adapter is stored.
        budgets: the limits on bytes in memory and on disk, and on age; None: unlimited.
        remote: the remote store that keeps the adapters that the disk evicts; None: no store.
        serves: whether this store answers requests. A serving store would notice the changes of
            other processes late, so commands refuse to change its folder.

    Attributes:
        decisions: the results of adaptations.
        serving: whether requests may find adapters now.
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
        self.decisions = Decisions(folder, remote)  # a decision is removed with its adapter
        self._known.watch(self.decisions.on_change)
        self.serving = Serving()
        self._ages = Ages(self._known, self._tiers, self._budgets.days)
        self._tiers.look()

    def put(self, adapter: Adapter, owner: str = "", made: Provenance | None = None) -> Path:
        """Store an adapter, whole or not at all; equal content is written once for an owner.

        Raises:
            StoreError: the disk, or its budget, is full; the adapter is usable while it is in
                memory.
        """
        self._ages.remove_old_now_and_then()
        key = (place_of(owner), adapter.id)
        content = adapter.to_bytes()
        self._known.expect(key)
        path, gone = self._tiers.write(key, adapter, content, index=self._known.index)
        if self._serves:
            self._folder.use()  # the folder may not have existed before
        self._forget(gone)
        known = describe(adapter, size=len(content), owner=owner, made=made)
        self._known.add(key, known)
        self._tiers.write_through(key)
        return path

    def get(self, reference: str, owner: str = "", *, sees_all: bool = False) -> Adapter:
        """Return the adapter of this id, `name` or `name@v2`, and count a use.

        Args:
            reference: the id or name.
            owner: the asker.
            sees_all: whether the asker may use the adapters of all owners.

        Raises:
            AdapterNotFound: the asker has no such adapter, and no owner shares one.
            InputError: several owners share one of that name.
            WeightsError: the file is damaged.
            StoreError: the remote store cannot be read, or adapters are not served now.
        """
        self.serving.check()
        try:
            key = self._known.find(reference, Asker(owner, sees_all))
        except AdapterNotFound:
            own = (place_of(owner), reference)
            is_unwritten = own not in self._known.index  # for instance because the disk is full
            adapter = self._tiers.recent(own) if is_unwritten else None
            if adapter is None:
                raise
            return adapter
        adapter = self._content(key)
        self._known.note_use(key)
        return adapter

    def peek(self, reference: str, owner: str) -> Adapter:
        """Return what `get` returns, without counting a use."""
        self.serving.check()
        return self._content(self._known.find(reference, Asker(owner)))

    def known(self, reference: str, owner: str) -> AdapterMetadata:
        """Return the metadata of an adapter that an asker may use (AdapterNotFound)."""
        return self._known.of(self._known.find(reference, Asker(owner)))

    def describe(self, owner: str | None) -> list[AdapterMetadata]:
        """Return the metadata of an owner's adapters, oldest first; None: of all owners."""
        self._known.refresh(owner)
        self._ages.remove_old()
        place = None if owner is None else place_of(owner)
        known = (known for _, known in self._known.index.items(place))
        return sorted(known, key=lambda each: (each.created_at, each.id))

    def change(self, adapter_id: str, owner: str, change: MetadataChange) -> AdapterMetadata:
        """Change the metadata of an owner's own adapter.

        Args:
            adapter_id: an id, not a name.
            owner: the owner of the adapter.
            change: a function of the present metadata, and of a function that gives a name's next
                version; it returns the new metadata.

        Raises:
            AdapterNotFound: this owner has no such adapter.
            StoreError: the disk is full.
        """
        key = self._known.own(adapter_id, owner)
        self._tiers.write_through(key)
        return self._known.change(key, change)

    def remove(self, adapter_id: str, owner: str) -> list[str]:
        """Remove an owner's own adapter everywhere; return the ids of adapters made from it.

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

    def give(self, adapter_id: str, owner: str, receiver: str) -> AdapterMetadata:
        """Move an owner's own adapter to another owner, with its name and provenance.

        Returns:
            Its new metadata: the receiver's next version, if the receiver has given its version
            already.

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

    def note(self, adapter_id: str, owner: str, known: AdapterMetadata | None) -> None:
        """Take over an adapter's metadata from another process; None: it was removed there.

        Beside a remote store the files here are copies, and change too.
        """
        key = (place_of(owner), adapter_id)
        if known is None:
            self._tiers.let_go_copy(key)
            self._known.forget(key)
            return
        self._known.note(key, known)
        if self._folder.holds(key):
            self._tiers.note(key, known.bytes)

    def watch(self, watcher: Watcher) -> None:
        """Call `watcher` with owner, id and metadata at each change; None: removed."""
        self._known.watch(watcher)

    def close(self) -> None:
        """Write the use counts that the files lack, and close the folder."""
        self._known.write_uses()
        self._folder.close()

    def is_served(self) -> bool:
        """Return whether a store on this folder answers requests, in any process here."""
        return self._folder.is_in_use()

    def place(self) -> Mapping[str, str] | None:
        """Return identity and path of the folder, if servers of other hosts must share it."""
        return None if self._tiers.remote else self._folder.described()

    def gauges(self) -> dict[str, float]:
        """Return numbers for a server's metrics: bytes, count, hits and misses of each tier."""
        return self._tiers.gauges()

    def _content(self, key: Key) -> Adapter:
        adapter = self._tiers.recent(key)
        if adapter is not None:
            return adapter
        try:
            adapter, gone = self._tiers.read(key, self._known.index)
        except AdapterNotFound:
            self._known.lose(key)  # the adapter's file was removed by hand
            raise
        self._forget(gone)
        if key not in self._known.index:  # the adapter was removed while its file was read
            self._tiers.let_go(key)
            raise not_found(key[1])
        return adapter

    def _forget(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self._known.forget(key)


def _named_as(
    given: AdapterMetadata, known: AdapterMetadata, next_version: NextVersion
) -> AdapterMetadata:
    """Return the name and version that another owner gave, or the next version if that is taken."""
    name = given.name or ""
    return replace(known, name=name, version=next_version(name, version_of(given) - 1))


def store_of(settings: RunnerSettings) -> AdapterStore:
    """Open the settings' store, to answer requests."""
    remote = Remote(settings.adapter_store) if settings.adapter_store else None
    folder = settings.weights_dir / "adapters"
    return AdapterStore(folder, budgets_of(settings), remote, serves=True)

"""The tiers that hold adapters' tensors: memory, disk, remote store.

Each tier is a copy of the next: an adapter evicted from memory or disk is read again at its next
use. Metadata belongs to `AdapterStore`; this module reads metadata only to choose the adapters that
it evicts.
"""

import logging
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from cog_adapt.runner.errors import StoreError, WeightsError
from cog_adapt.runner.modules.adapters import Adapter
from cog_adapt.runner.storage.budgets import StorageBudgets
from cog_adapt.runner.storage.disk import Disk
from cog_adapt.runner.storage.disk_files import DiskFiles
from cog_adapt.runner.storage.folder import Folder, checked_content
from cog_adapt.runner.storage.index import Index, Key
from cog_adapt.runner.storage.memory import Counts, Memory
from cog_adapt.runner.storage.names import not_found
from cog_adapt.runner.storage.remote import Remote
from cog_adapt.runner.storage.unsent import Unsent

logger = logging.getLogger(__name__)


class Tiers:
    """The tensors, by place and id.

    Args:
        folder: on disk.
        budgets: bytes in memory and on disk.
        remote: the remote store, or None.
    """

    def __init__(self, folder: Folder, budgets: StorageBudgets, remote: Remote | None) -> None:
        self.folder = folder
        self.remote = remote
        self._unsent = Unsent(folder, remote.url) if remote else None
        self.memory = Memory(budgets.memory, budgets.memory_of_owner)
        self.disk = Disk(budgets.disk, budgets.disk_of_owner)
        self._files = DiskFiles(folder)
        self.remote_counts = Counts()
        self._lock = threading.RLock()

    def look(self) -> None:
        """Count the adapters on disk, whichever process wrote them."""
        with self._lock:
            for place, sizes in self._files.changes():
                self.disk.note_place(place, sizes)

    def note(self, key: Key, size: int) -> None:
        """Count an adapter that already lies on disk."""
        with self._lock:
            self.disk.add(key, size)

    def recent(self, key: Key) -> Adapter | None:
        """Return an adapter that is in memory, or None."""
        with self._lock:
            return self.memory.get(key)

    def write(
        self, key: Key, adapter: Adapter, content: bytes, index: Index
    ) -> tuple[Path, Sequence[Key]]:
        """Store an adapter in memory and on disk.

        Returns:
            Its file, and the adapters that were removed for it.

        Raises:
            StoreError: the disk, or its budget, is full; the adapter stays in memory.
        """
        with self._lock:
            self.memory.put(key, adapter)
        is_new = self._unsent is not None and self._unsent.lacks(key)
        return self._write_file(key, content, index, is_new=is_new)

    def read(self, key: Key, index: Index) -> tuple[Adapter, Sequence[Key]]:
        """Read an adapter from the nearest tier, and copy it to nearer ones.

        Returns:
            The adapter, and those that were removed for it.

        Raises:
            AdapterNotFound: no tier has it.
            WeightsError: the stored adapter is damaged.
        """
        gone: Sequence[Key] = ()
        content = self._content_here(key)
        if content is not None:
            adapter = checked_content(content, key[1])
            self.disk.counts.hits += 1
        else:
            self.disk.counts.misses += 1
            adapter, gone = self._fetched(key, index)
        with self._lock:
            self.memory.put(key, adapter)
        return adapter, gone

    def _content_here(self, key: Key) -> bytes | None:
        """Read an adapter's file from this disk, or return None."""
        try:
            return self.folder.read(key) if self.folder.holds(key) else None
        except WeightsError:
            if self.folder.holds(key):
                raise
            return None

    def forget(self, key: Key) -> None:
        """Remove an adapter everywhere (StoreError); what was cut off can be repeated."""
        self.let_go(key)
        if self.remote:
            self.remote.remove(key)
        self.folder.remove(key)

    def let_go(self, key: Key) -> None:
        """Drop an adapter from memory and from the count; its files stay."""
        with self._lock:
            self.memory.drop(key)
            self.disk.discard(key)

    def let_go_copy(self, key: Key) -> None:
        """Drop an adapter that another process removed; beside a remote store its file here too."""
        self.let_go(key)
        if self.remote:
            self.folder.remove(key)

    def write_through(self, key: Key) -> None:
        """Copy an unsent adapter to the remote store; a failed copy is repeated later."""
        try:
            self._send(key)
        except (StoreError, WeightsError) as error:
            logger.warning("adapter %s is on this disk only: %s", key[1], error)

    def gauges(self) -> dict[str, float]:
        """Return the bytes, count, hits and misses of each tier."""
        with self._lock:
            return {
                **_numbers("memory", self.memory),
                **_numbers("disk", self.disk),
                "adapters_remote_hits": float(self.remote_counts.hits),
                "adapters_remote_misses": float(self.remote_counts.misses),
            }

    def _fetched(self, key: Key, index: Index) -> tuple[Adapter, Sequence[Key]]:
        content = self.remote.read(key) if self.remote else None
        if content is None:
            self.remote_counts.misses += 1 if self.remote else 0
            raise not_found(key[1])
        self.remote_counts.hits += 1
        adapter = checked_content(content, key[1])
        try:
            if (known := index.get(key)) is not None:
                self.folder.write_metadata(key, known)  # tensors alone would be a nameless adapter
            _, gone = self._write_file(key, content, index, is_new=False)
        except StoreError as error:
            logger.warning("adapter %s stays in ADAPTER_STORE alone: %s", key[1], error)
            return adapter, ()
        return adapter, gone

    def _write_file(
        self, key: Key, content: bytes, index: Index, *, is_new: bool
    ) -> tuple[Path, Sequence[Key]]:
        """Write a file and evict others; without a remote store they are lost."""
        with self.folder.locked_bytes():
            leaving = self._make_room(key, len(content), index)
            path = self._replace(leaving, key, content, is_new=is_new)
        return path, () if self.remote else leaving

    def _replace(self, leaving: Sequence[Key], key: Key, content: bytes, *, is_new: bool) -> Path:
        """Write a file that is counted already, after others have left (StoreError)."""
        try:
            if self._unsent is not None:
                self._unsent.begin()  # the folder may not have existed before
                self._unsent.mark(key) if is_new else self._unsent.clear(key)
            for each in leaving:
                self._let_go(each)
            return self.folder.write(key, content)
        except StoreError:
            with self._lock:
                self.disk.discard(key)
            raise

    def _make_room(self, key: Key, size: int, index: Index) -> Sequence[Key]:
        """Count a new file; return those that have to leave the disk for it (StoreError)."""
        self.look()
        with self._lock:
            if key in self.disk:
                return ()
            written = partial(self.folder.read_metadata, owner=None)
            leaving = self.disk.make_room(key, size, index=index, written=written)
            self.disk.add(key, size)
        return leaving

    def _send(self, key: Key) -> None:
        """Copy an unsent adapter, its tensors first (StoreError, WeightsError)."""
        if self.remote is None or self._unsent is None or key not in self._unsent:
            return
        self.remote.write(key, self.folder.read(key))
        known = self.folder.read_written(key)
        if known is not None:
            self.remote.write_metadata(key, known)
            self._unsent.clear(key)

    def _let_go(self, key: Key) -> None:
        self._send(key)
        self.folder.remove_content(key) if self.remote else self.folder.remove(key)
        with self._lock:
            self.disk.discard(key)
            if not self.remote:
                self.memory.drop(key)


def _numbers(name: str, tier: Memory | Disk) -> dict[str, float]:
    return {
        f"adapters_{name}_bytes": float(tier.bytes),
        f"adapters_{name}_entries": float(len(tier)),
        f"adapters_{name}_hits": float(tier.counts.hits),
        f"adapters_{name}_misses": float(tier.counts.misses),
    }

"""What other processes did to a shared folder of adapters since this process looked last.

A server tells its workers of changes at once; this look is for processes that nobody tells.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from cog_adapt.adapter_metadata import AdapterMetadata
from cog_adapt.runner.errors import StoreError
from cog_adapt.runner.storage.folder import Folder
from cog_adapt.runner.storage.index import Index, Key

logger = logging.getLogger(__name__)


class SeenFiles:
    """The times of the metadata files that this process has read.

    Args:
        folder: of the adapters.
        is_shared: whether a missing file means a removed adapter; not so beside a remote store.
    """

    def __init__(self, folder: Folder, *, is_shared: bool) -> None:
        self._folder = folder
        self._is_shared = is_shared
        self._times: dict[Key, int] = {}

    def news(
        self, index: Index, place: str, owner: str | None
    ) -> Iterator[tuple[Key, AdapterMetadata | None]]:
        """Yield the adapters of a place that are new or changed; None for those that are gone.

        While a changed one is yielded, no process changes it: write it into the index at once.

        Args:
            index: what this process knows.
            place: the folder of one owner.
            owner: None if only the place is known.
        """
        times = self._folder.times(place)
        for adapter_id, written_at in times.items():
            key = (place, adapter_id)
            before = index.get(key)
            has_other_owner = before and owner is not None and before.owner != owner
            if before and not has_other_owner and self._times.get(key) == written_at:
                continue
            self._times[key] = written_at
            yield from self._changed(key, owner, before)
        for key, _ in index.items(place) if self._is_shared else ():
            if key[1] not in times and not self._folder.has_any(key):
                self._times.pop(key, None)
                yield key, None

    def _changed(
        self, key: Key, owner: str | None, before: AdapterMetadata | None
    ) -> Iterator[tuple[Key, AdapterMetadata]]:
        if before is None:
            known = self._folder.read_metadata(key, owner)
            if known is not None:
                yield key, known
            return
        with _logging_failure(key), self._folder.locked(key[0]):
            known = self._folder.read_metadata(key, owner)
            if known is not None and known != before:
                yield key, known


@contextmanager
def _logging_failure(key: Key) -> Iterator[None]:
    try:
        yield
    except StoreError as error:
        logger.warning("a change of adapter %s is not read: %s", key[1], error)

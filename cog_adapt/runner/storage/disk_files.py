"""The sizes of the adapters' files in a folder, which several processes fill and empty.

The folder itself is the account of its bytes: each process looks at it before it writes. A process
reads only places whose folder has changed since its last look.
"""

import os
import time
from collections.abc import Iterator

from cog_adapt.runner.storage.folder import Folder

# A change within the resolution of a file system's times may leave the time of the folder as it is.
_SETTLED_NS = 3 * 10**9


class DiskFiles:
    """The files of a folder, by place.

    Args:
        folder: of the adapters; it need not exist.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._seen: dict[str, int] = {}
        self._sizes: dict[str, dict[str, int]] = {}

    def changes(self) -> Iterator[tuple[str, dict[str, int]]]:
        """Yield each place that may have changed, with the bytes of its files by id."""
        places = [*self._folder.places()]
        for place in [*self._sizes.keys() - set(places)]:
            self._seen.pop(place, None)
            del self._sizes[place]
            yield place, {}
        for place in places:
            changed = self._changed(place)
            if changed is None or changed != self._seen.get(place):
                self._sizes[place] = self._read(place)
                yield place, self._sizes[place]
                self._note(place, changed)

    def _note(self, place: str, changed: int | None) -> None:
        """Remember the time of a folder, unless a change after it could have the same time."""
        if changed is not None and abs(time.time_ns() - changed) > _SETTLED_NS:
            self._seen[place] = changed
        else:
            self._seen.pop(place, None)

    def _changed(self, place: str) -> int | None:
        try:
            return self._folder.place(place).stat().st_mtime_ns
        except OSError:
            return None

    def _read(self, place: str) -> dict[str, int]:
        """Return the bytes of a place's files; a file of a known id keeps its size."""
        before = self._sizes.get(place, {})
        sizes: dict[str, int] = {}
        for adapter_id in self._folder.stored_ids(place):
            size = before.get(adapter_id) or _size_of(self._folder.path((place, adapter_id)))
            if size is not None:
                sizes[adapter_id] = size
        return sizes


def _size_of(path: os.PathLike[str]) -> int | None:
    try:
        return os.stat(path).st_size
    except OSError:  # another process has removed it
        return None

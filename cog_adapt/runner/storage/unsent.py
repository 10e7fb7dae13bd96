"""The adapters of a folder that its remote store lacks, each marked by a file beside its own.

What has no mark was in the store: if the store lacks it now, it was removed there.
"""

from pathlib import Path

from cog_adapt.runner.data.files import write_whole
from cog_adapt.runner.storage.file_locks import locked_file
from cog_adapt.runner.storage.folder import Folder, remove_file
from cog_adapt.runner.storage.index import Key

_LOCK_SECONDS = 10.0


class Unsent:
    """The marks in a folder.

    Args:
        folder: of the adapters.
        url: of the remote store.
    """

    def __init__(self, folder: Folder, url: str) -> None:
        self._folder = folder
        self._url = url
        self._of_which = folder.root / "copy-of"

    def begin(self) -> None:
        """Make the folder a copy of the store; mark what another store, or none, had until now.

        Raises:
            StoreError: the folder cannot be written.
        """
        if self.is_copy() or not self._folder.root.is_dir():
            return
        with locked_file(self._of_which.with_suffix(".lock"), _LOCK_SECONDS):
            if self.is_copy():  # another process was first, and may have sent some since
                return
            places = self._folder.places()
            for key in [(each, name) for each in places for name in self._folder.stored_ids(each)]:
                self.mark(key)
            write_whole(self._of_which, self._url.encode())

    def is_copy(self) -> bool:
        """Return whether the folder is a copy of the store, so that marks are complete."""
        try:
            return self._of_which.read_text() == self._url
        except OSError:
            return False

    def mark(self, key: Key) -> None:
        """Note that the store lacks an adapter (StoreError)."""
        write_whole(self._path(key), b"")

    def clear(self, key: Key) -> None:
        """Note that the store has an adapter (StoreError)."""
        remove_file(self._path(key))

    def lacks(self, key: Key) -> bool:
        """Return whether the store lacks an adapter that is written now."""
        return self._path(key).exists() or not self._folder.holds(key)

    def __contains__(self, key: Key) -> bool:
        """Return whether the folder has an adapter that the store lacks."""
        return self._path(key).exists() and self._folder.holds(key)

    def _path(self, key: Key) -> Path:
        return self._folder.path(key).with_suffix(".unsent")

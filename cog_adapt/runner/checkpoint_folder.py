"""The folder of unfinished trainings' states, which is bounded in age and bytes.

A state outlives only a kill: the end of a training removes it, whichever end that is. What is
never asked for again goes when it is too old, or when the folder is full.
"""

import contextlib
import os
import shutil
import time
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path

from cog_adapt.runner.config import RunnerSettings

_SECONDS_A_DAY = 86_400
_SHARE_OF_DISK = 10
_MOST_REMOVED = 256


class CheckpointFolder:
    """A folder of `<key>.safetensors` files.

    Args:
        folder: made when the first state is written.
        days: after which a file is removed.
        most_bytes: of all files; None: a tenth of the disk's free space.
    """

    def __init__(self, folder: Path, days: float, most_bytes: int | None = None) -> None:
        self._folder, self._seconds = folder, days * _SECONDS_A_DAY
        self._removed: OrderedDict[Path, None] = OrderedDict()
        self._most_bytes = most_bytes or _free_bytes(folder) // _SHARE_OF_DISK

    def begin(self, key: str) -> Path:
        """Return the file for the state of a training that begins."""
        path = self._folder / f"{key}.safetensors"
        self._removed.pop(path, None)
        return path

    def remove(self, path: Path) -> None:
        """Remove the state of a training that has ended, though its last step may write it now."""
        self._removed[path] = None
        while len(self._removed) > _MOST_REMOVED:
            self._removed.popitem(last=False)
        path.unlink(missing_ok=True)

    def drop(self, key: str) -> None:
        """Remove the state of this key, where there is one."""
        if key:
            self.remove(self.begin(key))

    def tidy(self, written: Path | None = None) -> None:
        """Remove what is too old, and the oldest of what is too much.

        Args:
            written: the file that was just written, which stays unless its training has ended.
        """
        left, oldest = self._most_bytes, time.time() - self._seconds
        for path, status in sorted(self._files(), key=lambda each: -each[1].st_mtime):
            left -= status.st_size
            is_too_much = path != written and (left < 0 or status.st_mtime < oldest)
            if is_too_much or path in self._removed:
                path.unlink(missing_ok=True)

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        """Yield the states, and the drafts of those that were being written."""
        for path in self._folder.glob("*.safetensors*"):
            with contextlib.suppress(FileNotFoundError):  # another process was first
                yield path, path.stat()


def _free_bytes(folder: Path) -> int:
    existing = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    return shutil.disk_usage(existing).free


def folder_of(settings: RunnerSettings) -> CheckpointFolder:
    """Make the folder of a runner's checkpoints, tidied."""
    folder = CheckpointFolder(
        settings.weights_dir / "checkpoints",
        settings.checkpoint_days,
        settings.checkpoint_bytes or None,
    )
    folder.tidy()
    return folder

"""The folder of unfinished trainings' checkpoints, bounded in age and in bytes, also by owner.

A checkpoint outlives only a kill: the end of a training, of whatever kind, removes it. A checkpoint
that no request asks for again is removed when it is too old, or when the folder is full.
"""

import contextlib
import logging
import os
from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cog_adapt.deletion_clock import deletion_time
from cog_adapt.machine import free_disk_bytes
from cog_adapt.owner_bytes import OwnerBytes
from cog_adapt.runner.adaptation.start import Checkpoints
from cog_adapt.runner.adaptation.training_state import TrainingState, load_state, save_state
from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.storage.index import place_of
from cog_adapt.shared_settings import share_of

_SECONDS_A_DAY = 86_400
_PART_OF_DISK = 10
_MOST_REMOVED = 256
_log = logging.getLogger(__name__)


class CheckpointFolder:
    """A folder of `<key>.safetensors` files, or `<place>-<key>.safetensors` for an owner.

    Args:
        folder: made when the first checkpoint is written.
        days: after which a file is removed.
        most_bytes: of all files.
        most_of_owner: bytes of one owner's files; None: all. Files without an owner may use all.

    Attributes:
        writer: writes checkpoints beside the model thread, which must not wait for a disk.
    """

    def __init__(
        self,
        folder: Path,
        days: float,
        most_bytes: int,
        most_of_owner: int | None = None,
    ) -> None:
        self._folder = folder
        self._seconds = days * _SECONDS_A_DAY
        # One thread: a checkpoint of all of a model's weights takes as much memory as the weights.
        self.writer = ThreadPoolExecutor(1, thread_name_prefix="checkpoints")
        self._removed: OrderedDict[Path, None] = OrderedDict()
        self._most_bytes = most_bytes
        self._most_of_owner = most_of_owner or most_bytes

    def close(self) -> None:
        """Wait until all checkpoints under way are written."""
        self.writer.shutdown()

    def begin(self, key: str, owner: str = "") -> Path:
        """Return the file for the checkpoint of an owner's training that begins."""
        place = f"{place_of(owner)}-" if owner else ""
        path = self._folder / f"{place}{key}.safetensors"
        self._removed.pop(path, None)
        return path

    def remove(self, path: Path) -> None:
        """Remove the checkpoint of a training that has ended, even one being written."""
        self._removed[path] = None
        while len(self._removed) > _MOST_REMOVED:
            self._removed.popitem(last=False)
        path.unlink(missing_ok=True)

    def take_over(self, earlier: str, path: Path) -> None:
        """Move a checkpoint from an earlier name to `path`, unless `path` has one."""
        kept = self._folder / f"{earlier}.safetensors"
        if kept.exists() and not path.exists():
            kept.replace(path)

    def drop(self, key: str) -> None:
        """Remove the checkpoint of this key, if there is one."""
        if key:
            self.remove(self.begin(key))

    def tidy(self, written: Path | None = None) -> None:
        """Remove expired checkpoints, then the oldest until all budgets are met.

        The budgets are the folder's and each owner's.

        Args:
            written: the file that was just written. It stays, unless its training has ended or it
                alone exceeds the budget; then no checkpoint of this training is kept.
        """
        most, most_of_owner = self._most_bytes, self._most_of_owner
        kept: OwnerBytes[str] = OwnerBytes(most, most_of_owner, most_of_nobody=most)
        oldest, removed = deletion_time() - self._seconds, frozenset(self._removed)
        files = [
            (path != written, -status.st_mtime, path, status) for path, status in self._files()
        ]
        for is_other, _, path, status in sorted(files):
            place, size = path.name.rpartition("-")[0], status.st_size
            fits = kept.fits(place, size)
            if path in removed or not fits or (is_other and status.st_mtime < oldest):
                path.unlink(missing_ok=True)
            else:
                kept.add((place, path.name), size)
            if path == written and not fits and path not in removed:
                self._give_up(path, size)

    def _give_up(self, path: Path, size: int) -> None:
        """Keep no further checkpoint of a training."""
        self.remove(path)
        _log.warning(
            "training %s continues, but from its start if it is killed: its state has %d bytes; "
            "all states together may have %d (CHECKPOINT_BYTES), one owner's %d "
            "(CHECKPOINT_OWNER_BYTES)",
            path.stem,
            size,
            self._most_bytes,
            self._most_of_owner,
        )

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        """Yield the checkpoints, and the drafts of those that were being written."""
        for path in self._folder.glob("*.safetensors*"):
            with contextlib.suppress(FileNotFoundError):  # another process removed it first
                yield path, path.stat()


def folder_of(settings: RunnerSettings) -> CheckpointFolder:
    """Make the folder of a runner's checkpoints, tidied."""
    place = settings.weights_dir / "checkpoints"
    disk = settings.disk_bytes or free_disk_bytes(place)
    most = settings.checkpoint_bytes or disk // _PART_OF_DISK
    most_of_owner = settings.checkpoint_owner_bytes or share_of(most, settings.owner_share)
    folder = CheckpointFolder(
        folder=place, days=settings.checkpoint_days, most_bytes=most, most_of_owner=most_of_owner
    )
    folder.tidy()
    return folder


def checkpoints_in(folder: CheckpointFolder, file: Path, every: int) -> Checkpoints:
    """Return the checkpoints of a run in one file: how it saves its state and continues from it."""

    def write(state: TrainingState) -> None:
        save_state(state, file)
        folder.tidy(written=file)

    return Checkpoints(
        load=lambda: load_state(file),
        save=lambda state: folder.writer.submit(write, state),
        every=every,
    )

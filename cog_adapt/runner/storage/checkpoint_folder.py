"""The folder of unfinished trainings' states, bounded in age and in bytes, also of one owner.

A state outlives only a kill: the end of a training removes it, whichever end that is. What is
never asked for again goes when it is too old, or when the folder is full.
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
    """A folder of `<key>.safetensors` files, of an owner `<place>-<key>.safetensors`.

    Args:
        folder: made when the first state is written.
        days: after which a file is removed.
        most_bytes: of all files.
        most_of_owner: bytes of one owner's files; None: all. Files without an owner may have all.

    Attributes:
        writer: writes states beside the model's thread, which a disk must not hold up.
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
        # One: a state of all of a model's weights takes as much memory as it is written from.
        self.writer = ThreadPoolExecutor(1, thread_name_prefix="checkpoints")
        self._removed: OrderedDict[Path, None] = OrderedDict()
        self._most_bytes = most_bytes
        self._most_of_owner = most_of_owner or most_bytes

    def close(self) -> None:
        """Wait until what is being written is written."""
        self.writer.shutdown()

    def begin(self, key: str, owner: str = "") -> Path:
        """Return the file for the state of an owner's training that begins."""
        place = f"{place_of(owner)}-" if owner else ""
        path = self._folder / f"{place}{key}.safetensors"
        self._removed.pop(path, None)
        return path

    def remove(self, path: Path) -> None:
        """Remove the state of a training that has ended, though its last step may write it now."""
        self._removed[path] = None
        while len(self._removed) > _MOST_REMOVED:
            self._removed.popitem(last=False)
        path.unlink(missing_ok=True)

    def take_over(self, earlier: str, path: Path) -> None:
        """Go on with a state that was kept under another name, where `path` has none."""
        kept = self._folder / f"{earlier}.safetensors"
        if kept.exists() and not path.exists():
            kept.replace(path)

    def drop(self, key: str) -> None:
        """Remove the state of this key, where there is one."""
        if key:
            self.remove(self.begin(key))

    def tidy(self, written: Path | None = None) -> None:
        """Remove what is too old, and the oldest of what is too much, in all or of one owner.

        Args:
            written: the file that was just written, which stays unless its training has ended, or
                it alone is too much: then no state of this training is kept.
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
        """Keep no state of a training from now on."""
        self.remove(path)
        _log.warning(
            "training %s goes on, but from its start if it is killed: its state has %d bytes; the "
            "states of all may have %d (CHECKPOINT_BYTES), one owner's %d (CHECKPOINT_OWNER_BYTES)",
            path.stem,
            size,
            self._most_bytes,
            self._most_of_owner,
        )

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        """Yield the states, and the drafts of those that were being written."""
        for path in self._folder.glob("*.safetensors*"):
            with contextlib.suppress(FileNotFoundError):  # another process was first
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
    """Return how a run leaves its state in a file, and goes on from it."""

    def write(state: TrainingState) -> None:
        save_state(state, file)
        folder.tidy(written=file)

    return Checkpoints(
        load=lambda: load_state(file),
        save=lambda state: folder.writer.submit(write, state),
        every=every,
    )

"""Removes the temporary files that a run made and returned.

Cog's documentation promises this removal. A removed file is a plain file, lies below the temporary
folder once symbolic links are resolved, and was made or changed since the run began: files from
setup() stay. Files in a folder that the predictor keeps, or in a working directory that is itself
temporary, stay, too.
"""

import contextlib
import os
import stat
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from cog_adapt.server.worker.uploads import Destination, FileContent

_TICK_NS = 20_000_000  # file times lag behind the clock by a tick of the kernel


class OutputFiles:
    """A destination that remembers the files sent to it.

    Args:
        destination: of the files.
        kept: folders whose files stay.
    """

    def __init__(self, destination: Destination, kept: Sequence[Path] = ()) -> None:
        self._destination = destination
        self._kept = kept
        self._began = time.time_ns() - _TICK_NS
        self._paths: set[Path] = set()

    def link(self, file: FileContent) -> str:
        """Return the URL under which the client finds the file."""
        if file.path is not None:
            self._paths.add(file.path.absolute())
        return self._destination.link(file)

    def remove(self) -> None:
        """Remove the run's files, after the run's end: a run may return a file twice."""
        paths = tuple(self._paths)  # a cancelled run may still read one of them
        if not paths:
            return
        folder = Path(tempfile.gettempdir()).resolve()
        kept = [each.resolve() for each in self._kept]
        if folder in Path.cwd().resolve().parents:
            kept.append(Path.cwd().resolve())
        for path in paths:
            # the file was removed, or links form a ring
            with contextlib.suppress(OSError, RuntimeError):
                self._remove(path, folder, kept)

    def _remove(self, path: Path, folder: Path, kept: Sequence[Path]) -> None:
        target = path.resolve(strict=True)
        is_below = folder in target.parents and not any(each in target.parents for each in kept)
        status = os.lstat(target)
        if not is_below or not stat.S_ISREG(status.st_mode) or status.st_ctime_ns < self._began:
            return
        target.unlink()
        if path.is_symlink() and path.parent.resolve().is_relative_to(folder):
            path.unlink()

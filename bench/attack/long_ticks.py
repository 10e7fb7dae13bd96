"""Says where the model thread was in its long ticks, by looking at its stack from outside.

Each long tick is a line of JSON in the file that TICKS_FILE names: its seconds, and the innermost
frame of the project in most samples.
"""

import json
import os
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from cog_adapt.runner.scheduling.scheduler import Scheduler

LONG_SECONDS = 0.1
_LOOK_SECONDS = 0.01
_FRAMES = 12  # of the project, the innermost first
_FOLDERS = (str(Path(__file__).parents[2]), "site-packages")


class LongTicks:
    """Samples the ticks of a model thread until the process ends.

    Args:
        scheduler: owns the thread.
        path: the file to which a line is added for each long tick.
    """

    def __init__(self, scheduler: Scheduler, path: Path) -> None:
        self._scheduler, self._path = scheduler, path
        self._seen: Counter[str] = Counter()
        threading.Thread(target=self._look, name="long-ticks", daemon=True).start()

    def _look(self) -> None:
        ident = self._scheduler._thread.ident or 0
        last = 0.0
        while True:
            time.sleep(_LOOK_SECONDS)
            seconds, _ = self._scheduler.beat()
            if seconds < last and last >= LONG_SECONDS:
                self._write(last)
            if seconds < last:
                self._seen.clear()
            last = seconds
            if seconds:
                self._seen[_frames_of(ident)] += 1

    def _write(self, seconds: float) -> None:
        (frames, _), *_ = self._seen.most_common(1)
        with self._path.open("a") as file:
            file.write(json.dumps({"seconds": round(seconds, 3), "frames": frames}) + "\n")


def _frames_of(ident: int) -> str:
    """Return the innermost frames of the project in a thread's stack."""
    found: list[str] = []
    frame = sys._current_frames().get(ident)
    while frame is not None and len(found) < _FRAMES:
        name = frame.f_code.co_filename
        if name.startswith(_FOLDERS[0]) and _FOLDERS[1] not in name:
            found.append(f"{Path(name).name}:{frame.f_lineno} {frame.f_code.co_name}")
        frame = frame.f_back
    return " < ".join(found)


def watch_if_asked(scheduler: Scheduler) -> None:
    """Watch a model thread if TICKS_FILE names a file."""
    if path := os.environ.get("TICKS_FILE"):
        LongTicks(scheduler, Path(path))

"""A tree of the project, seen from outside: processes that have it on their path."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PREDICTORS = Path(__file__).parent / "predictors"
_SECONDS = 300.0
_FOREIGN = ("COG_", "OTEL_", "API_KEY", "DATA_DIR", "WEIGHTS_DIR", "PORT", "PYTEST_")


@dataclass(frozen=True)
class Ended:
    """A process that has ended."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Tree:
    """The project at one commit.

    Attributes:
        path: absolute path of its root.
    """

    path: Path

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the variables for a process of this tree, which writes nothing into the tree."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(_FOREIGN)}
        kept["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}"
        fixed = {"COLUMNS": "100", "LINES": "40", "TERM": "dumb", "NO_COLOR": "1", "TZ": "UTC"}
        quiet = {"PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
        quiet["HF_HUB_OFFLINE"] = "1"  # else a missing model is looked for, slowly, on the network
        return {**kept, **fixed, **quiet, "PYTHONPATH": str(self.path), **(more or {})}

    def run(
        self, arguments: Sequence[str], folder: Path, more: Mapping[str, str] | None = None
    ) -> Ended:
        """Run `python ARGUMENTS` in a folder to its end, or end it by SIGTERM."""
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=folder,
            env=self.environment(more),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            out, err = process.communicate(timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
        return Ended(process.returncode, out, err)


def fill(folder: Path, *names: str) -> Path:
    """Copy predictors of this package into a folder. Return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        shutil.copy(PREDICTORS / name, folder)
    return folder

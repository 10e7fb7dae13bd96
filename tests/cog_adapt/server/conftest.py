"""Starts of a server's front that end before it serves."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cog_adapt.forks import forked

REPOSITORY = Path(__file__).parents[3]


class Ended(NamedTuple):
    """What a process left."""

    returncode: int
    stdout: str
    stderr: str


Start = Callable[..., Ended]
"""Runs a program of `main` and `build` in a folder, with the given variables besides our own."""


@pytest.fixture(scope="session")
def start() -> Start:
    """Runs programs in forks of a process that has imported the server's front."""

    def run(folder: Path, program: str, **variables: str) -> Ended:
        stub = {"COG_PREDICT_TYPE_STUB": "x.py:X", "PORT": "0"}
        files = [folder / name for name in ("stdout", "stderr")]
        for file in files:
            file.unlink(missing_ok=True)
        process = forked(
            program,
            folder=folder,
            variables={**os.environ, **stub, **variables},
            stdout=files[0],
            stderr=files[1],
            seconds=60,
        )
        return Ended(process.wait(70), *(file.read_text() for file in files))

    return run

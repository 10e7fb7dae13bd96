"""The programs that `.ci/operators` fetches; without them the tests that ask them are skipped."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
_FOLDER = ROOT / os.environ.get("OPERATORS_FOLDER", ".venv-operators")
_PLACES = {"docker-compose": "bin"}  # of Python's package; the others are Debian's


def program(name: str) -> Path:
    """Return a program's path, or skip the test."""
    found = _FOLDER / _PLACES.get(name, "debian/usr/bin") / name
    if not found.is_file():
        pytest.skip(f"{name} is not here: `.ci/operators` fetches it")
    return found


def run(
    name: str, *arguments: str | Path, more: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end."""
    command = [str(program(name)), *map(str, arguments)]
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **(more or {})}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

"""Runs these tests where nothing else of a checkout is, beside the few libraries that they need.

    python -m gradient_check.tests.alone          # all of them
    python -m gradient_check.tests.alone -k guard # with arguments of pytest

The folder of the package is copied into an empty one, and torch, rich, numpy and pytest are linked
into an environment of their own. Files that need more are left out, and named.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from gradient_check.tests import clean

LIBRARIES = ("torch", "rich", "numpy", "pytest")
PYTEST = (
    *("-m", "pytest", "-q", "-p", "no:cacheprovider", "gradient_check/tests"),
    "--ignore=gradient_check/tests/test_alone.py",  # which would copy the copy
)
LEFT_BEHIND = shutil.ignore_patterns("__pycache__", ".*_cache")


def copied(folder: Path) -> tuple[Path, Path]:
    """Copy the package into an empty folder; return an interpreter for it, and the copy's place."""
    place = folder / "place"
    shutil.copytree(clean.ROOT / "gradient_check", place / "gradient_check", ignore=LEFT_BEHIND)
    return clean.environment(folder / "environment", *LIBRARIES), place


def main() -> int:
    """Run the tests of a copy; return the exit code of pytest."""
    with tempfile.TemporaryDirectory() as empty:
        python, place = copied(Path(empty))
        command = [str(python), *PYTEST, *sys.argv[1:]]
        return subprocess.run(command, cwd=place, env=clean.variables(), check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

"""Environments that hold a few distributions and what these ask for, and nothing else.

What is installed here is linked, so that a test neither downloads torch nor copies it.
"""

import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]


def closure(*names: str) -> set[str]:
    """The distributions that these need by their own metadata, these among them."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        if name in found:
            continue
        try:
            asked = distribution(name).requires or []
        except PackageNotFoundError:  # for another system
            continue
        found.add(name)
        needed = map(Requirement, asked)
        waiting += [n.name for n in needed if n.marker is None or n.marker.evaluate({"extra": ""})]
    return found


def environment(folder: Path, *names: str, wheel: Path | None = None) -> Path:
    """Make an environment of the named distributions and a wheel; return its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for name in closure(*names):
        link(name, site)
    if wheel is not None:
        install = ("install", "-q", "--no-deps", "--target", str(site), str(wheel))
        subprocess.run([sys.executable, "-m", "pip", *install], check=True)
    return folder / "bin" / "python"


def link(name: str, site: Path) -> None:
    """Link what a distribution has put beside the others: its packages, modules and metadata."""
    found = distribution(name)
    for top in {Path(file).parts[0] for file in found.files or ()}:
        source = Path(str(found.locate_file(top)))
        if top not in ("..", "__pycache__") and source.exists() and not (site / top).exists():
            (site / top).symlink_to(source)


def build(folder: Path) -> Path:
    """Build the wheel of this package from a checkout, as `pip install ./gradient_check` does."""
    make = ("wheel", "-q", "--no-deps", "-w", str(folder), str(ROOT / "gradient_check"))
    subprocess.run([sys.executable, "-m", "pip", *make], check=True, timeout=300)
    (wheel,) = folder.glob("gradient_check-*.whl")
    return wheel


def variables() -> dict[str, str]:
    """The environment's variables, without what points at this checkout."""
    own = ("COG_", "PYTHON", "PYTEST", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    return {**kept, "OMP_NUM_THREADS": "1"}


def run(python: Path, *arguments: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run an interpreter in a folder, without what points at this checkout."""
    return subprocess.run(
        [python, *arguments],
        cwd=folder,
        env=variables(),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )

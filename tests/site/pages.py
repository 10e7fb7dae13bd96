"""The pages of the site: where they lie in the repository, and the builder's findings on them."""

import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SETTINGS = ROOT / "docs" / "zensical.toml"
_PAGES = ("*.md", "docs/**/*.md", "gradient_check/*.md", "gradient_check/docs/*.md")
_SHOWN = ("docs/images/*", "docs/results/*", "gradient_check/LICENSE", "LICENSE")
_PLAIN = {"PATH": "/usr/bin:/bin", "NO_COLOR": "1"}


def titles(nav: list[dict[str, Any]] | None = None) -> Iterator[tuple[str, str]]:
    """Yield the titles and paths of the navigation, in its order."""
    for entry in tomllib.loads(SETTINGS.read_text())["project"]["nav"] if nav is None else nav:
        for title, value in entry.items():
            yield from titles(value) if isinstance(value, list) else [(title, value)]


def gather(folder: Path) -> None:
    """Copy the pages and all that they show into a folder, each at its place in the repository."""
    for pattern in (*_PAGES, *_SHOWN):
        for path in filter(Path.is_file, ROOT.glob(pattern)):
            place = folder / "pages" / path.relative_to(ROOT)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place)
    shutil.copyfile(SETTINGS, folder / SETTINGS.name)
    shutil.copyfile(ROOT / "docs" / "llms.txt", folder / "pages" / "llms.txt")


def build(folder: Path) -> str:
    """Build the site of what `gather` copied, into `folder/site`; return what is wrong with it."""
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env=_PLAIN
    )
    return done.stdout + done.stderr if done.returncode else ""

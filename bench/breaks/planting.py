"""A break of the code, a copy of the tree to plant it in, and the first test that catches it."""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_SECONDS = 900
_TEST_SECONDS = 120
_LEFT_BEHIND = shutil.ignore_patterns(
    ".git", ".venv*", ".data", "node_modules", "__pycache__", ".*_cache"
)


@dataclass(frozen=True)
class Break:
    """A text that occurs once in a file, and its replacement.

    Attributes:
        what: its name, worded as a fault.
        path: of the file.
        old: the text.
        new: the replacement.
        tests: a file of tests that must catch it; without one, those of its kind.
        finding: the red team's finding that the text fixes.
    """

    what: str
    path: str
    old: str
    new: str
    tests: str = ""
    finding: str = ""

    @property
    def name(self) -> str:
        """The finding, if one is named, and what is broken."""
        return f"{self.finding}: {self.what}" if self.finding else self.what

    def plant(self, tree: Path) -> None:
        """Write the break into a tree (ValueError if the text does not occur exactly once)."""
        text = (tree / self.path).read_text("utf-8")
        if text.count(self.old) != 1:
            raise ValueError(f"{self.path} has {self.old!r} {text.count(self.old)} times, not once")
        (tree / self.path).write_text(text.replace(self.old, self.new), "utf-8")

    def mend(self, tree: Path) -> None:
        """Restore the file from this checkout."""
        shutil.copyfile(ROOT / self.path, tree / self.path)


@dataclass(frozen=True)
class Suite:
    """The tests that a break is shown to.

    Attributes:
        chosen: pytest's arguments that choose them.
        options: pytest's other options.
        device: the device that the tests run on.
    """

    chosen: Sequence[str] = ()
    options: Sequence[str] = ("-n", "0")
    device: str = "the CPU"

    def failing(self, tree: Path, chosen: Sequence[str] | None = None) -> str | None:
        """Return the first test that fails in a tree, or how pytest ended; None if all pass."""
        tests = self.chosen if chosen is None else chosen
        ends = ("-x", "-q", "-p", "no:cacheprovider", "--timeout", str(_TEST_SECONDS))
        try:
            done = subprocess.run(
                [sys.executable, "-m", "pytest", *self.options, *tests, *ends],
                cwd=tree,
                env={
                    "OMP_NUM_THREADS": "1",
                    # a mend of equal size in the same second would run the break's bytecode
                    "PYTHONDONTWRITEBYTECODE": "1",
                    # `runuser`, which starts PostgreSQL, is in the folder of the administrator
                    "PATH": f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin",
                },
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"no end within {_SECONDS} s"
        if done.returncode == 0:
            return None
        failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", done.stdout, re.MULTILINE)
        return failed[1] if failed else f"exit code {done.returncode}"


def seen_by(planted: Break, suite: Suite, likely: str | None = None) -> str | None:
    """Return a test that fails with a break and passes without it, or None.

    Args:
        planted: the break.
        suite: the tests of its kind.
        likely: a test that runs before all of them.

    Raises:
        ValueError: the test that fails with the break fails without it too.
    """
    chosen = (planted.tests,) if planted.tests else suite.chosen
    with _copied_tree() as tree:
        planted.plant(tree)
        asked = (likely,) if likely else chosen
        test = suite.failing(tree, asked)
        if likely and test != likely:
            asked = chosen
            test = suite.failing(tree, asked)
        if test is None:
            return None
        planted.mend(tree)
        if suite.failing(tree, (test,) if "::" in test else asked) == test:
            raise ValueError(f"{test} fails without a break too. Mend it first.")
        return test


@contextmanager
def _copied_tree() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=_LEFT_BEHIND)
        yield tree

"""Runs the self-test's command, under whichever name a tree gives it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.house.tree import Ended, Tree

_SPELLINGS = (
    ("-m", "runner.selftest"),
    ("-m", "cog_adapt.runner.selftest.run"),
    ("-m", "cog_adapt", "selftest"),
    ("-m", "cog_adapt.command", "selftest"),
    ("-m", "server", "selftest"),
)


def run_selftest(
    tree: Tree, folder: Path, arguments: Sequence[str], more: Mapping[str, str] | None = None
) -> Ended:
    """Run the first spelling that exists."""
    for spelling in _SPELLINGS:
        ended = tree.run([*spelling, *arguments], folder, more)
        if not _is_missing(ended):
            break
    return ended


def _is_missing(ended: Ended) -> bool:
    return ended.code != 0 and "No module named" in ended.err and "Traceback" not in ended.err

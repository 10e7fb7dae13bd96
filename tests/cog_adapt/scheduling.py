"""A plugin of pytest for a run of all tests: what shares a server runs in turn, in one process."""

import gc
import re
from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

CONTRACT = "tests/cog_adapt/contract/"
FOLDERS = ("tests/cog_adapt/client/", "tests/cog_adapt/replicate/")
# Most of its many tests are skipped where weights are not installed; the others take two minutes.
KINDS = "tests/cog_adapt/command/test_kinds.py"
_FLAVOURED = re.compile(r"\[(coglet|mirror-strict|mirror)\b")


def unit_of(nodeid: str) -> str:
    """Return what one process runs as a whole: a flavour of the contract, a folder, or a file."""
    flavour = _FLAVOURED.search(nodeid)
    if flavour and nodeid.startswith(CONTRACT):
        return CONTRACT + flavour[1]
    folder = next((each for each in FOLDERS if nodeid.startswith(each)), None)
    return folder or nodeid.partition("::")[0]


class ByServer(LoadFileScheduling):
    """Tests whose servers live for more than a file are not divided by files."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage meanwhile: nearly all that is made here stays, and half the time goes."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Put first what takes long: units that share a server, then files of few, slow tests."""
    sizes = Counter(unit_of(each.nodeid) for each in items)

    def place(item: Any) -> tuple[bool, int]:
        unit = unit_of(item.nodeid)
        return unit.endswith(".py"), 0 if unit == KINDS else sizes[unit]

    items.sort(key=place)


def pytest_collection_finish() -> None:
    """Freeze the tests: each collection would walk two million objects of theirs, and find none."""
    gc.set_threshold(50_000, 10, 10)
    gc.collect()
    gc.freeze()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByServer:
    """Return what divides the tests among the processes, in the order of the collection."""
    config.option.loadscopereorder = False  # the files of most tests would come first
    return ByServer(config, log)

"""The budgets in bytes on a made-up machine: nothing is set, or the three settings of bytes are.

Which setting rules a budget of the model is found from outside: the setting is set, and the
numbers that are gone were its own.
"""

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import FunctionType, MethodType
from unittest.mock import patch

import torch

from cog_adapt import ModelRunner, RunnerSettings, Settings
from cog_adapt.machine import memory_bytes
from cog_adapt.server.records.space import RecordSpace, SpaceUse
from cog_adapt.server.shares.budget import MemoryBudgets, body_budget
from tests.cog_adapt.models import SHAPES

_PAGE, _PAGES = 4096, 500_009  # 2 GB, less than any machine's that runs the tests
_AVAILABLE_KIB = 1_200_007
_DISK = shutil._ntuple_diskusage(900_000_000_003, 500_000_000_002, 400_000_000_001)
_LEAST, _MOST = 2**20, 2**42  # smaller numbers are counts, larger ones addresses
_OWN = 7_654_321
_THREE = {"MEMORY_SHARE": "0.5", "DISK_BYTES": "80000000000", "OWNER_SHARE": "0.25"}
_SYSTEM = ("/sys/fs/cgroup", "/proc/self/cgroup")


def budgets() -> Iterator[str]:
    """Yield `side setting bytes` of each budget."""
    with tempfile.TemporaryDirectory() as name, _machine():
        yield f"machine memory {_PAGE * _PAGES} available {_AVAILABLE_KIB * 1024}"
        yield f"machine disk {_DISK.total} free {_DISK.free}"
        yield from _of_server(Path(name))
        yield from _of_model(Path(name))
        yield from _of_the_three(Path(name))


def _of_the_three(folder: Path) -> Iterator[str]:
    """Yield what follows where all three are set: of the model, the numbers that are new."""
    said = " ".join(f"{name}={value}" for name, value in _THREE.items())
    usual = _numbers(RunnerSettings(weights_dir=folder))
    given = {"WEIGHTS_DIR": str(folder), **_THREE}
    new = _numbers(RunnerSettings.from_environment(given)) - usual
    yield f"{said}: model {' '.join(map(str, sorted(new)))}"
    with patch.dict(os.environ, _THREE):
        yield from (f"{said}: {line}" for line in _of_server(folder))


def _of_server(folder: Path) -> Iterator[str]:
    settings = Settings(data_dir=folder)
    space = RecordSpace.of(settings)
    space.set(SpaceUse(0, {}))
    for budget in (*MemoryBudgets.of(settings), body_budget(settings), space):
        yield f"server {budget.name}: all {budget.most:.0f} an owner {budget.most_of_owner:.0f}"


def _of_model(folder: Path) -> Iterator[str]:
    usual = _numbers(RunnerSettings(weights_dir=folder))
    for name in (each for each in RunnerSettings.model_fields if each.endswith("_bytes")):
        given = {"WEIGHTS_DIR": str(folder), name.upper(): str(_OWN)}
        left = _numbers(RunnerSettings.from_environment(given))
        yield f"model {name.upper()}: {' '.join(map(str, sorted(usual - left)))}"


def _numbers(settings: RunnerSettings) -> Counter[int]:
    """Return how often a runner holds each large number, whatever it calls them."""
    runner = ModelRunner(SHAPES["letters"](), settings)
    try:
        return Counter(_held(runner, set()))
    finally:
        runner.close()


def _held(value: object, seen: set[int]) -> Iterator[int]:
    if isinstance(value, int) and _LEAST <= value < _MOST:
        yield value
    if id(value) in seen:
        return
    seen.add(id(value))
    if hasattr(value, "ask_limit"):
        value.ask_limit()  # asked for when work begins
    for inner in _inside(value):
        yield from _held(inner, seen)


def _inside(value: object) -> list[object]:
    if isinstance(value, dict):
        return [*value.values()]
    if isinstance(value, list | tuple | set | frozenset):
        return [*value]
    if isinstance(value, partial):
        return [value.func, *value.args]
    if isinstance(value, MethodType):
        return [value.__self__]
    if isinstance(value, FunctionType):
        return [cell.cell_contents for cell in value.__closure__ or ()]
    is_own = type(value).__module__.startswith("cog_adapt.")
    return [*vars(value).values()] if is_own and hasattr(value, "__dict__") else []


@contextmanager
def _machine() -> Iterator[None]:
    """Let this process see the made-up memory and disk, and no container's limits."""
    sizes = {"SC_PAGE_SIZE": _PAGE, "SC_PHYS_PAGES": _PAGES}
    sysconf, read_text = os.sysconf, Path.read_text

    def read(path: Path, *arguments: str, **named: str) -> str:
        if str(path).startswith(_SYSTEM):
            raise FileNotFoundError(path)
        if str(path) == "/proc/meminfo":
            return f"MemAvailable: {_AVAILABLE_KIB} kB\n"
        return read_text(path, *arguments, **named)

    with ExitStack() as stack:
        # Nothing is set; without OMP_NUM_THREADS a runner would change this process's threads.
        threads = {"OMP_NUM_THREADS": str(torch.get_num_threads())}
        stack.enter_context(patch.dict(os.environ, threads, clear=True))
        stack.enter_context(patch.object(os, "sysconf", lambda n: sizes.get(n) or sysconf(n)))
        stack.enter_context(patch.object(shutil, "disk_usage", lambda path: _DISK))
        stack.enter_context(patch.object(Path, "read_text", read))
        memory_bytes.cache_clear()
        stack.callback(memory_bytes.cache_clear)
        yield

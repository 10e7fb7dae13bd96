"""What a second process does with a store, for tests of several processes on one folder."""

import multiprocessing
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.synchronize import Barrier
from pathlib import Path

from cog_adapt.runner.storage.budgets import StorageBudgets
from cog_adapt.runner.storage.changes import apply_changes
from cog_adapt.runner.storage.remote import Remote
from cog_adapt.runner.storage.store import AdapterStore
from tests.cog_adapt.runner.storage.made import adapter_of

_SECONDS = 120


def at_once(work: Callable[[Barrier, int], object], count: int = 2) -> None:
    """Run `work` in so many processes, which begin together; each gets its number."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])  # torch is imported once for all of them
    barrier = context.Barrier(count)
    processes = [
        context.Process(target=_work, args=(work, barrier, number, dict(os.environ)), daemon=True)
        for number in range(count)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(_SECONDS)
    assert [process.exitcode for process in processes] == [0] * count


def _work(
    work: Callable[[Barrier, int], object],
    barrier: Barrier,
    number: int,
    environment: Mapping[str, str],
) -> None:
    os.environ.update(environment)  # forkserver has that of the first test which used it
    work(barrier, number)


def fill(folder: Path, disk: int, each: int, barrier: Barrier, process: int) -> None:
    """Put `each` adapters into a store of `disk` bytes; after each one, look at all bytes."""
    store = AdapterStore(folder, StorageBudgets(2**20, 2**20, disk, disk))
    barrier.wait()
    for number in range(each):
        store.put(adapter_of(1000 * process + number))
        assert sum(sizes_in(folder)) <= disk


def sizes_in(folder: Path) -> list[int]:
    """The bytes of the adapters' files that are there now; another process may remove some."""
    sizes = []
    for path in [*folder.glob("*.safetensors")]:
        with suppress(FileNotFoundError):
            sizes.append(path.stat().st_size)
    return sizes


def name_all(
    folders: list[Path], url: str | None, each: int, barrier: Barrier, process: int
) -> None:
    """Give one name to `each` adapters of a process, and remove every second one again."""
    remote = Remote(url) if url else None
    unbounded = StorageBudgets(2**40, 2**40, 2**40, 2**40)
    store = AdapterStore(folders[process], unbounded, remote)
    adapters = [adapter_of(1000 * process + number) for number in range(each)]
    for adapter in adapters:
        store.put(adapter, "ann")
    barrier.wait()
    given = []
    for number, adapter in enumerate(adapters):
        named = store.change(
            adapter.id, "ann", lambda known, version: apply_changes(known, {"name": "a"}, version)
        )
        given.append(named.version)
        if number % 2:
            store.remove(adapter.id, "ann")
    (folders[process] / f"given-{process}").write_text(" ".join(map(str, given)))


def given_versions(folders: list[Path]) -> list[int]:
    """The versions that `name_all` gave, of all processes."""
    texts = [(folder / f"given-{process}").read_text() for process, folder in enumerate(folders)]
    return sorted(int(version) for text in texts for version in text.split())

"""Large sources are read one at a time, owners in turn, on one thread; small ones at once."""

import asyncio
import gc
import json
import sys
import threading
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from cog_adapt.runner.request import Request, is_large
from cog_adapt.runner.requests.few_shot import answer
from tests.cog_adapt.models import Letters
from tests.cog_adapt.runner.asking import FEW
from tests.cog_adapt.waiting import until

ROWS = [{"input": "aa", "target": "low"}, {"input": "yy", "target": "high"}]
LARGE = json.dumps([{**row, "more": "w" * 40_000} for row in ROWS])
SMALL = json.dumps(ROWS)
OWNER = "owner"


class Watched(Letters):
    """Tells who reads its rows, and how many threads do at once."""

    def __init__(self) -> None:
        self.threads: list[str] = []
        self.intervals: list[float] = []
        self.collects: list[bool] = []
        self.at_once, self.most = 0, 0
        self.counting = threading.Lock()
        self.go_on = threading.Event()
        self.go_on.set()
        self.reading = threading.Event()

    def example(self, row):
        with self.counting:
            self.at_once += 1
            self.most = max(self.most, self.at_once)
        self.threads.append(threading.current_thread().name)
        self.intervals.append(sys.getswitchinterval())
        self.collects.append(gc.isenabled())
        self.reading.set()
        self.go_on.wait(60)
        with self.counting:
            self.at_once -= 1
        return super().example(row)


@pytest.fixture
def runner(make_runner):
    runner = make_runner(Watched())
    runner.read_owner_from(OWNER)
    return runner


def asked(runner, owner="ann", **given):
    request = Request(("ab",), recipe=FEW, **given)
    scope = SimpleNamespace(context={OWNER: owner}, record_metric=lambda *_: None)
    return answer(runner, request, scope)


def test_a_large_source_is_read_by_the_one_thread_that_reads(runner, tmp_path):
    path = tmp_path / "rows.json"
    path.write_text(SMALL)

    async def story():
        await asked(runner, examples=LARGE)
        await asked(runner, examples_file=path)

    usual = sys.getswitchinterval()
    asyncio.run(story())
    assert set(runner.task.threads) == {"reading"}
    assert max(runner.task.intervals) < usual == sys.getswitchinterval()
    assert not any(runner.task.collects)
    assert gc.isenabled()


def test_a_few_rows_of_large_texts_are_a_large_source(runner):
    async def story():
        for letters in (300_000, 1):
            await asked(runner, examples=[{**row, "more": "w" * letters} for row in ROWS])

    asyncio.run(story())
    assert [name == "reading" for name in runner.task.threads] == [True, True, False, False]


def test_a_request_of_many_values_is_judged_by_its_first_ones():
    looked = []

    class Row(dict):
        def values(self):
            looked.append(len(self))
            return super().values()

    many = [0] * 2_000_000
    rows = [Row(input="a", more=many) for _ in range(400)]
    assert is_large(Request(("a",), examples=rows))
    assert len(looked) == 1


@pytest.mark.parametrize("size", [300_000, 1])
def test_a_large_file_among_the_inputs_makes_a_large_source(tmp_path, size):
    path = tmp_path / "picture"
    path.write_bytes(b"w" * size)
    for value in (path, path.read_bytes(), path.read_text(), [path.read_text()]):
        assert is_large(Request((value,))) == (size > 1)
    path.unlink()
    assert not is_large(Request((path,)))


def test_several_large_sources_are_read_one_after_the_other(runner):
    async def story():
        await asyncio.gather(*(asked(runner, str(n), examples=LARGE) for n in range(8)))

    asyncio.run(story())
    assert runner.task.most == 1
    assert set(runner.task.threads) == {"reading"}


def test_a_small_source_does_not_wait_for_a_large_one(runner):
    task = runner.task
    task.go_on.clear()

    async def story():
        large = asyncio.create_task(asked(runner, "ann", examples=LARGE))
        await asyncio.to_thread(task.reading.wait, 60)
        plain = await asked(runner, "bob", labels=("low", "high"))
        assert plain.predictions
        small = asyncio.create_task(asked(runner, "bob", examples=SMALL))
        await until(lambda: task.at_once == 2)
        task.go_on.set()
        await asyncio.gather(large, small)

    asyncio.run(story())
    assert {"reading"} < set(task.threads)


def test_owners_take_turns_however_many_sources_one_of_them_has(runner):
    task, order = runner.task, list[str]()
    task.go_on.clear()

    async def read(owner):
        await asked(runner, owner, examples=LARGE.replace("w", owner[0]))

    async def story():
        first = asyncio.create_task(read("ann"))
        await asyncio.to_thread(task.reading.wait, 60)
        others = []
        for owner in ("ann", "ann", "ann", "bob"):
            note = partial(order.append, owner)
            reading = runner.reading.read_async(owner, note, is_large=True)
            others.append(asyncio.create_task(reading))
            await asyncio.sleep(0)
        task.go_on.set()
        await asyncio.gather(first, *others)

    asyncio.run(story())
    assert order[0] == "bob"


def test_an_uploaded_adapter_is_read_in_turn_too(runner, tmp_path):
    threads = []
    taken = runner.adapters
    path = tmp_path / "adapter"
    adapter = runner.adapt([runner.task.example(row) for row in ROWS], FEW).adapter
    path.write_bytes(adapter.to_bytes())
    read = Path.open

    def opened(self, *args, **kwargs):
        threads.append(threading.current_thread().name)
        return read(self, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "open", opened)
        assert taken.take("ann", path)["id"] == adapter.id
    assert threads[0] == "reading"

"""A cancel at any bytecode of the caller's side loses nothing and holds nothing.

Cog cancels by raising a BaseException wherever the predicting thread stands. Here it is raised at
the first bytecode, then in a new run at the second, and so on until a run ends by itself. With
FAULTS=full that is each bytecode that a run comes to. In the short form it is each when a run first
comes to it, and one of 23 that a run comes to again.
"""

import asyncio
import dis
import functools
import gc
import itertools
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

import cog_adapt.runner as runner_package
from cog_adapt.runner.config import Recipe
from cog_adapt.runner.errors import UnavailableError
from cog_adapt.runner.inference.answers import Query
from cog_adapt.runner.modules.adapters import Adapter, load_adapter
from cog_adapt.runner.request import Request
from cog_adapt.runner.requests.training import train
from cog_adapt.runner.scheduling import scheduler
from cog_adapt.runner.scheduling import tickets as ticket_module
from cog_adapt.runner.scheduling.scheduler import Scheduler, once
from cog_adapt.runner.storage.store import AdapterStore
from gradient_check.tests.models import Cancelled
from tests.cog_adapt.conftest import jobs_left, traces
from tests.cog_adapt.models import Caching, Letters, examples, inputs, labels

SOURCES = str(Path(runner_package.__file__).parent)
FEW = Recipe(max_steps=2, learning_rate=0.01)
ENDLESS = Recipe(max_steps=100_000, learning_rate=0.01)
MOST_POINTS = 20_000
AGAIN = 1 if os.environ.get("FAULTS") == "full" else 23

# CPython 3.11 leaks the exception that is being handled, with all its frames, where a tracer
# raises at one of these. It never delivers an exception of another thread there.
UNTRACEABLE = {"PUSH_EXC_INFO", "COPY", "POP_EXCEPT"}


class EnoughError(Exception):
    """Ends a run that would otherwise take long."""


@functools.cache
def traceable(code):
    """The offsets in a code object at which a tracer may raise."""
    return {i.offset for i in dis.get_instructions(code) if i.opname not in UNTRACEABLE}


def interrupted(point, act, function, sources=(SOURCES,)):
    """Call `function`, and `act` at the given bytecode of `sources`; whether that was reached."""
    seen, arrivals, known = 0, 0, set()

    def trace(frame, event, _):
        nonlocal seen, arrivals
        if not frame.f_code.co_filename.startswith(sources):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and frame.f_lasti in traceable(frame.f_code):
            arrivals += 1
            place = frame.f_code, frame.f_lasti
            if place not in known or arrivals % AGAIN == 0:
                known.add(place)
                seen += 1
                if seen == point:
                    act()
        return trace

    before = sys.gettrace()  # that of a measurement of coverage
    sys._getframe().f_trace_opcodes = True  # CPython 3.12 looks for it when tracing starts
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
    return seen >= point


def cancel():
    raise Cancelled


def cancelled_at(point, function, sources=(SOURCES,)):
    """Call `function`, and cancel it at the given bytecode; whether that was reached."""
    try:
        interrupted(point, cancel, function, sources)
    except Cancelled:
        return True
    except EnoughError:
        return False
    return False


def points(function, sources=(SOURCES,)):
    """Every point at which a run of `function` was cancelled, one run after the other."""
    for point in itertools.count(1):
        assert point < MOST_POINTS
        if not cancelled_at(point, function, sources):
            return
        yield point


@pytest.fixture(autouse=True)
def young_objects_only():
    """Make a collection look only at what a test made, so that thousands of them are cheap."""
    was_frozen = gc.get_freeze_count() > 0  # in a run of all tests
    gc.collect()
    gc.freeze()
    yield
    if not was_frozen:
        gc.unfreeze()


def jobs_left_without_cycles(model_runner):
    """How much work is left, once asyncio's own circle of task and exception lets the ticket go."""
    left = jobs_left(model_runner)
    if left:
        gc.collect()
        left = jobs_left(model_runner)
    return left


def two_steps_of_a_long_one(model_runner):
    def on_step(step):
        if step.number == 2:
            raise EnoughError

    model_runner.adapt(examples("caching"), ENDLESS, on_step)


CALLS = {
    "adapt": lambda r: r.adapt(examples("caching"), FEW, lambda step: None),
    "endless adapt": two_steps_of_a_long_one,
    "predict": lambda r: r.predict(inputs("caching"), None, labels("caching")),
    "submit_adaptation": lambda r: asyncio.run(
        r.submit_adaptation(examples("caching"), FEW).wait_async()
    ),
    "predict_async": lambda r: asyncio.run(
        r.predict_async(Query(inputs("caching"), None, labels("caching")))
    ),
}
FEWEST_POINTS = {"adapt": 150, "predict": 60}


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")  # cancelled just before
@pytest.mark.parametrize("call", CALLS)
def test_a_cancel_at_any_bytecode_of_a_call_drops_the_work_and_nothing_else(
    make_runner, monkeypatch, call
):
    monkeypatch.setattr(ticket_module, "POLL_SECONDS", 5.0)  # so that every run takes the same way
    model_runner = make_runner(Caching())
    answer = model_runner.predict(inputs("caching"), None, labels("caching"))
    adapted = model_runner.adapt(examples("caching"), FEW).adapter.id
    before = traces(model_runner)
    count = 0
    for point in points(lambda: CALLS[call](model_runner)):
        count = point
        assert jobs_left_without_cycles(model_runner) == 0, point
        assert model_runner.predict(inputs("caching"), None, labels("caching")) == answer, point
        assert traces(model_runner) == before, point
    assert count >= FEWEST_POINTS.get(call, 100)
    assert model_runner.adapt(examples("caching"), FEW).adapter.id == adapted


def slow_work(ticks):
    """Work that makes its caller poll in vain before each message."""
    for tick in range(ticks):
        time.sleep(0.003)
        yield tick
    return "done"


@pytest.mark.parametrize("submit", ["submit_short", "submit_long"])
def test_a_cancel_between_polls_drops_the_work(monkeypatch, submit):
    monkeypatch.setattr(ticket_module, "POLL_SECONDS", 0.001)
    row = Scheduler()
    progress: list[Any] = []
    count = 0
    for point in points(lambda: getattr(row, submit)(slow_work(2)).wait(progress.append)):
        count = point
        row.submit_long(once(int)).wait()
        assert row.submit_long(once(len, row)).wait() == 0, point
    row.close()
    assert count > 50
    assert set(progress) == {0, 1}


def test_a_close_at_any_bytecode_of_handing_in_leaves_no_caller_waiting():
    """Another thread closes the scheduler just then; the caller is refused or gets a message."""
    refused, answered = 0, 0
    for point in itertools.count(1):
        tickets: list[Any]
        row, tickets = Scheduler(), []
        hand_in = lambda row=row, tickets=tickets: tickets.append(row.submit_long(slow_work(1)))  # noqa: E731
        try:
            reached = interrupted(point, row.close, hand_in, (scheduler.__file__,))
        except UnavailableError:
            refused += 1
            continue
        row.close()
        assert not tickets[0].outbox.empty(), point  # a wait would never end
        answered += 1
        if not reached:
            break
    assert refused > 0
    assert answered > 5


# of what had just been opened
UNCLOSED = pytest.mark.filterwarnings("ignore:unclosed (file|scandir iterator):ResourceWarning")


@UNCLOSED
def test_a_cancel_at_any_bytecode_of_putting_leaves_a_whole_file_or_none(tmp_path):
    adapter = Adapter(
        {"head.weight": torch.arange(8.0).reshape(2, 4)}, ("a", "b"), "head", "0" * 16
    )
    expected = adapter.to_bytes()
    path = tmp_path / f"{adapter.id}.safetensors"
    seen = set()
    for point in points(lambda: AdapterStore(tmp_path).put(adapter)):
        seen.add(path.exists())
        if path.exists():
            assert path.read_bytes() == expected, point
            path.unlink()
        AdapterStore(tmp_path).put(adapter)
        assert path.read_bytes() == expected, point
        path.unlink()
    assert seen == {True, False}


TEXTS = '{"low": ["aa", "ab", "ac"], "high": ["ya", "yb", "yc"]}'


@UNCLOSED
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")  # cancelled just before
def test_a_cancel_at_any_bytecode_of_training_leaves_whole_files_only(make_runner, monkeypatch):
    monkeypatch.setattr(ticket_module, "POLL_SECONDS", 5.0)
    model_runner = make_runner(Letters())
    recipe = Recipe(max_steps=1, learning_rate=0.01)
    request = Request(examples=TEXTS, recipe=recipe)
    path = asyncio.run(train(model_runner, request)).weights
    expected = path.read_bytes()
    names = ("training", "learning", "shared_runs", "files", "model_runner")
    files = tuple(f"{SOURCES}/{name}.py" for name in names)
    weights = model_runner.settings.weights_dir
    model_runner.store.remove(path.stem, "")
    for point in points(lambda: asyncio.run(train(model_runner, request)), files):
        for file in weights.rglob("*.safetensors"):
            assert load_adapter(file).to_bytes() == expected, point
        assert jobs_left_without_cycles(model_runner) == 0, point
        for known in model_runner.store.describe(None):  # else there would be nothing to run
            model_runner.store.remove(known.id, "")
    assert path.read_bytes() == expected
    gc.collect()  # what was cut off between open() and `with` is closed here, not in another test

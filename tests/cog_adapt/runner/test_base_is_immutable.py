"""Whatever an adaptation does, or is done to it, leaves the base bit for bit as it was.

Over a thousand cycles with FAULTS=full, over four hundred without: recipes, faults and cancels are
drawn at random, and after each cycle the whole state of base and process is compared by means of
the tests' own.
"""

import asyncio
import contextlib
import ctypes
import gc
import os
import random
import threading
import time
import weakref
from typing import Any

import pytest
import torch

from cog_adapt.runner.config import METHODS, Recipe
from cog_adapt.runner.errors import AdaptationError, InputError, RunnerError
from cog_adapt.runner.inference.answers import Query
from gradient_check.tests.models import Cancelled
from gradient_check.tests.present import present
from tests.cog_adapt.conftest import jobs_left, traces
from tests.cog_adapt.models import SHAPES, examples, inputs, labels

LONG = 200
CYCLES = LONG if os.environ.get("FAULTS") == "full" else 60
RUNS = [*((shape, "fp32") for shape in SHAPES), ("letters", "bf16"), ("images", "fp16")]


def random_recipe(draw):
    methods = [*METHODS, "match:*weight", "match:nothing"]
    return Recipe(
        method=draw.choice(methods),
        rank=draw.choice([1, 2, 4]),
        max_steps=draw.randint(1, 5),
        batch_size=draw.choice([2, 3, 6]),
        learning_rate=draw.choice([None, 1e-3, 0.1, 1.0]),
        seed=draw.randrange(2**31),
        hold_out=draw.choice([0.0, 0.3]),
        weight_decay=draw.choice([0.0, 0.1]),
        checkpointing=draw.random() < 0.2,
    )


def at_call(number, act):
    """A fault that strikes at the given forward and lets the others pass."""
    calls = 0

    def fault(losses):
        nonlocal calls
        calls += 1
        return act(losses) if calls == number else losses

    return fault


def raising(error):
    def act(losses):
        raise error

    return act


FAULTS = {
    "raises": lambda: raising(ValueError("the loss cannot be taken")),
    "cancels": lambda: raising(Cancelled()),
    "exits": lambda: raising(SystemExit(3)),
    "interrupts": lambda: raising(KeyboardInterrupt()),
    "is nan": lambda: lambda losses: losses * float("nan"),
    "is cut": lambda: lambda losses: losses.detach(),
    "fills memory": lambda: lambda losses: losses + torch.empty(2**60).sum(),
    "draws": lambda: lambda losses: losses * torch.rand(()),
    "calls for no gradient": lambda: lambda losses: (torch.set_grad_enabled(False), losses)[1],
    "opens autocast": lambda: (
        lambda losses: (torch.autocast("cpu", torch.bfloat16).__enter__(), losses)[1]
    ),
}
EXPECTED = (RunnerError, Cancelled, SystemExit, KeyboardInterrupt)


def adapt_with_fault(runner, draw, shape):
    fault = FAULTS[draw.choice(list(FAULTS))]()
    runner.model.task.fault = at_call(draw.randint(1, 4), fault)
    with contextlib.suppress(*EXPECTED):
        runner.adapt(examples(shape), random_recipe(draw))


def adapt(runner, draw, shape):
    with contextlib.suppress(InputError, AdaptationError):
        runner.adapt(examples(shape, seed=draw.randrange(99)), random_recipe(draw))


def adapt_from_adapter(runner, draw, shape):
    with contextlib.suppress(InputError, AdaptationError):
        first = runner.adapt(examples(shape), random_recipe(draw)).adapter
        runner.adapt(examples(shape), random_recipe(draw), begin=first)
        runner.predict(inputs(shape), first)


def drop_ticket(runner, draw, shape):
    ticket = runner.submit_adaptation(examples(shape), random_recipe(draw))
    time.sleep(draw.uniform(0, 0.006))
    del ticket


def raise_in_progress(runner, draw, shape):
    last = draw.randint(1, 5)

    def on_step(step):
        if step.number == last:
            raise Cancelled

    with contextlib.suppress(Cancelled, InputError, AdaptationError):
        runner.adapt(examples(shape), random_recipe(draw), on_step)


def cancel_coroutine(runner, draw, shape):
    async def scene():
        calls = [
            asyncio.create_task(
                runner.submit_adaptation(examples(shape), random_recipe(draw)).wait_async()
            ),
            asyncio.create_task(runner.predict_async(Query(inputs(shape), None, labels(shape)))),
        ]
        await asyncio.sleep(draw.uniform(0, 0.006))
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    asyncio.run(scene())


def inject_into_caller(runner, draw, shape):
    """As coglet cancels: an exception set from another thread, wherever the caller stands."""
    injected = threading.Event()
    recipe = random_recipe(draw)

    def caller():
        with contextlib.suppress(Cancelled):
            with contextlib.suppress(InputError, AdaptationError):
                runner.adapt(examples(shape), recipe)
                runner.predict(inputs(shape), None, labels(shape))
            while not injected.is_set():
                time.sleep(0.0005)
            for _ in range(100):  # the pending exception is raised at one of these jumps at last
                pass

    thread = threading.Thread(target=caller)
    thread.start()
    time.sleep(draw.uniform(0, 0.012))
    reached = ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(present(thread.ident)), ctypes.py_object(Cancelled)
    )
    injected.set()
    thread.join()
    assert reached == 1


SCENES = [
    adapt,
    adapt_with_fault,
    adapt_with_fault,
    adapt_from_adapter,
    drop_ticket,
    raise_in_progress,
    cancel_coroutine,
    inject_into_caller,
    inject_into_caller,
]


@pytest.mark.parametrize(("shape", "precision"), RUNS)
def test_no_cycle_of_adapting_failing_or_cancelling_leaves_a_trace(make_runner, shape, precision):
    runner = make_runner(SHAPES[shape](), precision=precision)
    draw = random.Random(f"{shape}/{precision}")
    recipe = Recipe(max_steps=3, seed=7)
    answer = runner.predict(inputs(shape), None, labels(shape))
    adapter = runner.adapt(examples(shape), recipe).adapter
    before = traces(runner)
    for cycle in range(CYCLES):
        scene = draw.choice(SCENES)
        scene(runner, draw, shape)
        runner.model.task.fault = None
        name = f"cycle {cycle}, {scene.__name__}"
        assert traces(runner) == before, name
        assert runner.predict(inputs(shape), None, labels(shape)) == answer, name
    assert jobs_left(runner) == 0
    assert runner.health() == ()
    assert runner.adapt(examples(shape), recipe).adapter.id == adapter.id


def test_the_long_form_has_at_least_a_thousand_cycles():
    assert LONG * len(RUNS) >= 1000


def test_a_dropped_adaptation_is_freed_before_the_next_one_takes_its_turn(make_runner):
    runner = make_runner(SHAPES["letters"]())
    replicas: Any = weakref.WeakSet()
    loss = runner.model.task.loss

    def watched(module, batch, targets):
        replicas.add(module)
        return loss(module, batch, targets)

    runner.model.task.loss = watched
    for _ in range(5):
        with contextlib.suppress(Cancelled):
            runner.adapt(examples("letters"), Recipe(max_steps=100_000), raising(Cancelled()))
        assert jobs_left(runner) == 0
    gc.collect()
    assert len(replicas) == 0

"""Measures predictions beside others: many adapters at once, behind long work, under load.

It reads the clock and the process's CPU time, which shows the cost of work on a busy machine.

Both sides of each comparison take turns in one run. The numbers are written with a plot of latency
against the number of callers.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from bench import data
from bench.load_curve import Row, Sizes, latency_row, plot, timed, under_load
from bench.report import Columns, Report, Spread, arguments, interleave, milliseconds, ratio
from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.devices.device import choose_precision
from cog_adapt.runner.inference.answers import Query
from cog_adapt.runner.inference.label_tensors import finished
from cog_adapt.runner.model_runner import ModelRunner
from cog_adapt.runner.task.task import on_device
from task import TextClassification

ADAPTERS, REQUESTS, QUEUED = 8, 32, 16
LONG = "The parcel that I ordered has still not come, and nobody answers. " * 8
COLUMNS: Columns = {
    "what": str,
    "ms": milliseconds,
    "p99 ms": milliseconds,
    "ratio": ratio,
    "CPU ms": milliseconds,
    "CPU ratio": ratio,
}


QUICK = Sizes(rounds=5, predictions=60, long_texts=32, callers=(1, 8, 32))


class Load:
    """A runner with adapters that are ready, and texts to ask it."""

    def __init__(self, runner: ModelRunner, sizes: Sizes) -> None:
        self.runner = runner
        self.sizes = sizes
        split = data.split(8, 0)
        self.examples = split.train
        self.texts = [example.input for example in split.test[:REQUESTS]]
        recipe = Recipe(max_steps=1)
        self.adapters = [
            runner.adapt(self.examples, replace(recipe, seed=seed)).adapter
            for seed in range(ADAPTERS)
        ]

    def query(self, number: int, **more: Any) -> Query:  # noqa: ANN401 - of a query
        """Make a request of one text for one of the adapters."""
        adapter = self.adapters[number % ADAPTERS]
        return Query([self.texts[number % REQUESTS]], adapter, **more)

    async def many(self, **more: Any) -> None:  # noqa: ANN401 - of a query
        """Ask all requests at once."""
        queries = [self.query(number, **more) for number in range(REQUESTS)]
        await asyncio.gather(*map(self.runner.predict_async, queries))

    async def one(self) -> None:
        """Ask the same texts in one request."""
        await self.runner.predict_async(Query(self.texts, self.adapters[0]))

    async def latency(self, count: int, owner: str = "short") -> list[float]:
        """Ask one short request after another; milliseconds of each."""
        times = []
        for number in range(count):
            times.append(await timed(self.runner.predict_async(self.query(number, owner=owner))))
            await asyncio.sleep(0.005)
        return times


@dataclass(frozen=True)
class Cost:
    """Milliseconds of one call: by the clock, and of all this process's threads."""

    wall: float
    cpu: float


def cost(call: Callable[[], object]) -> Cost:
    """Measure a call."""
    began, cpu = time.perf_counter(), time.process_time()
    call()
    return Cost((time.perf_counter() - began) * 1e3, (time.process_time() - cpu) * 1e3)


def shared(load: Load) -> list[Row]:
    """Compare requests over adapters with the same texts in one request."""
    return compared(
        {
            "one request of 32 texts": lambda: asyncio.run(load.one()),
            "32 requests over 8 adapters": lambda: asyncio.run(load.many()),
            "the same, each alone": lambda: asyncio.run(load.many(deterministic=True)),
        },
        load.sizes.rounds,
    )


def lone(load: Load) -> list[Row]:
    """Compare a lone prediction on the runner with the bare module."""
    runner, query = load.runner, load.query(0)
    served = finished(runner.model.predictions.modules.serving(query))

    def bare() -> None:
        batch = on_device(runner.task.encode(query.inputs), runner.precision.device)
        with torch.inference_mode():
            runner.task.predict(served.module, batch, served.labels, None)

    def ours() -> None:
        runner.predict(query.inputs, query.adapter)

    return compared({"bare module": bare, "lone prediction": ours}, 10 * load.sizes.rounds)


def compared(calls: dict[str, Callable[[], object]], rounds: int) -> list[Row]:
    """Measure contestants by turns; ratios are to the first, within each round."""
    turns = {name: partial(_measured, call) for name, call in calls.items()}
    interleave(turns, 2)
    costs = interleave(turns, rounds)
    first = next(iter(costs.values()))
    return [_compared_row(name, some, first) for name, some in costs.items()]


def _measured(call: Callable[[], object], _round: int) -> Cost:
    call()  # pays for the change of threads and caches
    return cost(call)


def _compared_row(name: str, costs: list[Cost], first: list[Cost]) -> Row:
    pairs = [*zip(costs, first, strict=True)]
    return {
        "what": name,
        "ms": Spread.of([each.wall for each in costs]),
        "ratio": Spread.of([each.wall / base.wall for each, base in pairs]),
        "CPU ms": Spread.of([each.cpu for each in costs]),
        "CPU ratio": Spread.of([each.cpu / base.cpu for each, base in pairs]),
    }


async def behind(load: Load) -> list[Row]:
    """Measure short predictions of one owner: alone, behind a long one, and behind adaptations."""
    rows, count = [], load.sizes.predictions
    rows.append(latency_row("short, nothing else", await load.latency(count)))
    long = Query([LONG] * load.sizes.long_texts, load.adapters[0], owner="long")
    rows.append(latency_row("short, beside a long one", await beside(load, predict_for_ever, long)))
    adapters = [adapt_for_ever(load, number) for number in range(QUEUED)]
    steps: list[float] = []
    adapters.append(time_steps(load, steps))
    tasks = [asyncio.create_task(each) for each in adapters]
    rows.append(latency_row(f"short, {QUEUED} adaptations queued", await load.latency(count)))
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    rows.append(latency_row("a tick beside them", steps or [0.0]))
    return rows


async def beside(load: Load, work: Callable[..., Awaitable[None]], query: Query) -> list[float]:
    """Measure short predictions while other work runs."""
    task = asyncio.ensure_future(work(load, query))
    try:
        return await load.latency(load.sizes.predictions)
    finally:
        task.cancel()


async def predict_for_ever(load: Load, query: Query) -> None:
    """Ask a long request again and again."""
    while True:
        await load.runner.predict_async(query)


async def adapt_for_ever(load: Load, number: int) -> None:
    """Adapt until cancelled."""
    recipe = Recipe(max_steps=2_000, budget_seconds=600.0, seed=number)
    await load.runner.submit_adaptation(load.examples, recipe, owner=f"owner {number}").wait_async()


async def time_steps(load: Load, steps: list[float]) -> None:
    """Note the durations of ticks, to within the 3 ms between two looks."""
    before = 0.0
    while True:
        lasted, _ = load.runner.model_thread_beat()
        if lasted < before:  # another tick, or none
            steps.append(before * 1e3)
        before = lasted
        await asyncio.sleep(0.003)


def main() -> None:
    """Measure predictions of many adapters, behind long work and under load."""
    chosen = arguments(main.__doc__)
    settings, sizes = RunnerSettings.from_environment(), QUICK if chosen.quick else Sizes()
    with ModelRunner(TextClassification(), settings) as runner:
        load = Load(runner, sizes)
        rows = [*shared(load), *lone(load), *asyncio.run(behind(load))]
        curve = asyncio.run(under_load(load.query, runner, sizes))
    facts = {"rounds": sizes.rounds, "predictions": sizes.predictions, "threads": chosen.threads}
    report = Report("Predictions beside others", COLUMNS, [*rows, *curve], facts)
    report.publish(choose_precision(settings), chosen.output)
    if chosen.output is not None:
        plot(curve, chosen.output.with_suffix(".png"))


if __name__ == "__main__":
    main()

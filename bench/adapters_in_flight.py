"""Measures predictions a second by the number of adapters in flight, with 16 ready on the device.

Each request is a whole one (`cog_adapt.answer`) with one text, for one of N adapters of rank 8,
drawn uniformly; 32 callers ask again at once. The numbers N take turns within one run, with memory
that holds all adapters and with memory for 64, so that the disk is read. A last pass profiles the
model thread and the thread that looks adapters up, for the fewest and the most adapters.
"""

import argparse
import asyncio
import cProfile
import os
import pstats
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from bench import data
from bench.report import Columns, Report, Spread, arguments, interleave
from cog_adapt import ModelRunner, Recipe, Request, RunnerSettings, answer
from cog_adapt.runner.devices.device import choose_precision
from cog_adapt.runner.modules.adapters import Adapter
from cog_adapt.runner.scheduling.scheduler import once
from gradient_check.phases.randomness import generator
from task import TextClassification

CALLERS, RANK, IN_MEMORY = 32, 8, 64
ALL, SOME = "memory holds all", f"memory holds {IN_MEMORY}"
PARTS = {
    "file read": ("folder.py", "read"),
    "decode and digest": ("folder.py", "checked_content"),
    "check that it fits": ("adapter_fit.py", "check_fits"),
    "replica": ("replicas.py", "serving_replica"),
    "forward and answer": ("modes.py", "run_inference"),
    "tokens": ("decoding.py", "encoded"),
    "lookup, with its parts above": ("store.py", "get"),
}


@dataclass(frozen=True)
class Sizes:
    """The numbers in flight, rounds, and requests of a turn."""

    numbers: Sequence[int] = (8, 16, 32, 64, 128, 256, 512, 1024)
    rounds: int = 7
    requests: int = 160
    warm: int = 64


QUICK = Sizes(numbers=(8, 64), rounds=2, requests=64, warm=32)


def whole(number: float) -> str:
    """Format a number without decimals."""
    return f"{number:.0f}"


def rate(spread: Spread) -> str:
    """Format the median and quartiles of a rate."""
    return f"{spread.median:.0f} ({spread.lower_quartile:.0f}–{spread.upper_quartile:.0f})"


def tenths(spread: Spread) -> str:
    """Format a median with a decimal."""
    return f"{spread.median:.1f}"


def percent(part: float) -> str:
    """Format a share."""
    return f"{part:.0%}"


COLUMNS: Columns = {
    "memory": str,
    "adapters": whole,
    "predictions a second": rate,
    "CPU ms": tenths,
    "of 8, times slower": tenths,
    "ready on the device": percent,
    "in memory": percent,
}


class InFlight:
    """A runner with many stored adapters, and its callers.

    Args:
        runner: on a store of its own.
        count: adapters to store; each differs from the trained one in all of its tensors.
        callers: that ask at once.
    """

    def __init__(self, runner: ModelRunner, count: int, callers: int = CALLERS) -> None:
        self.runner = runner
        self.callers = callers
        self.texts = [example.input for example in data.split(8, 0).test[:CALLERS]]
        recipe = Recipe("lora", rank=RANK, max_steps=1)
        trained = runner.adapt(data.split(8, 0).train, recipe).adapter
        assert trained is not None
        self.adapters = [other(trained, number) for number in range(count)]
        for adapter in self.adapters:
            runner.store.put(adapter)
        self.ids = [adapter.id for adapter in self.adapters]

    async def ask(self, numbers: Iterator[int]) -> None:
        """Ask for one adapter after the other, from several callers at once."""
        scope = SimpleNamespace(context={}, record_metric=lambda *_: None)

        async def caller(first: int) -> None:
            for number in numbers:
                text = self.texts[(first + number) % len(self.texts)]
                await answer(self.runner, Request([text], adapter=self.ids[number]), scope)

        await asyncio.gather(*map(caller, range(self.callers)))

    def gauges(self) -> Mapping[str, float]:
        """Return the counts of the tiers."""
        return self.runner.gauges()


def other(adapter: Adapter, number: int) -> Adapter:
    """Return an adapter of the same shapes with tensors of its own."""
    draw = generator(0, "in flight", number)
    tensors = {
        name: tensor + 0.01 * tensor.new_empty(tensor.shape).normal_(generator=draw)
        for name, tensor in adapter.tensors.items()
    }
    return replace(adapter, tensors=tensors)


def drawn(count: int, seed: int) -> Iterator[int]:
    """Draw numbers below `count` uniformly, for ever."""
    draw = random.Random(seed)
    while True:
        yield draw.randrange(count)


@dataclass(frozen=True)
class Turn:
    """What one turn of requests took, a request: seconds, CPU seconds, hits by tier."""

    seconds: float
    cpu: float
    device: float
    memory: float


def turn(flight: InFlight, count: int, sizes: Sizes, number: int) -> Turn:
    """Ask for `count` adapters, after some requests that do not count."""
    draws = drawn(count, number)
    asyncio.run(flight.ask(islice(draws, sizes.warm)))
    before, began, cpu = flight.gauges(), time.perf_counter(), time.process_time()
    asyncio.run(flight.ask(islice(draws, sizes.requests)))
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    after = flight.gauges()

    each = sizes.requests

    def hits(tier: str) -> float:  # a shared forward counts no hit on the device, only a miss
        misses = f"adapters_{tier}_misses"
        return 1 - (after[misses] - before[misses]) / each

    return Turn(seconds / each, cpu / each, hits("device"), hits("memory"))


def measure(flights: Mapping[str, InFlight], sizes: Sizes) -> list[dict[str, Any]]:
    """Let numbers and memories take turns."""
    turns = {
        (memory, count): partial(turn, flight, count, sizes)
        for memory, flight in flights.items()
        for count in sizes.numbers
    }
    names = {f"{memory}, {count}": key for key in turns for memory, count in [key]}
    results = interleave({name: turns[key] for name, key in names.items()}, sizes.rounds)
    return [row(results, *key, first=sizes.numbers[0]) for key in turns]


def row(
    results: Mapping[str, Sequence[Turn]], memory: str, count: int, first: int
) -> dict[str, Any]:
    """Make a row; its ratio is within each round, in CPU time."""
    own, base = results[f"{memory}, {count}"], results[f"{memory}, {first}"]
    return {
        "memory": memory,
        "adapters": count,
        "predictions a second": Spread.of([1 / each.seconds for each in own]),
        "CPU ms": Spread.of([1e3 * each.cpu for each in own]),
        "of 8, times slower": Spread.of(
            [each.cpu / less.cpu for each, less in zip(own, base, strict=True)]
        ),
        "ready on the device": Spread.of([each.device for each in own]).mean,
        "in memory": Spread.of([each.memory for each in own]).mean,
    }


def profile(flight: InFlight, count: int, requests: int) -> dict[str, float]:
    """Profile the model thread and one that looks up; return ms a request of each part."""
    model, lookups = cProfile.Profile(), cProfile.Profile()
    scheduler = flight.runner.scheduler

    async def ask() -> None:
        threads = ThreadPoolExecutor(1, initializer=lookups.enable)
        asyncio.get_running_loop().set_default_executor(threads)
        await flight.ask(islice(drawn(count, 0), requests))
        await asyncio.to_thread(lookups.disable)

    scheduler.submit_short(once(model.enable)).wait()
    asyncio.run(ask())
    scheduler.submit_short(once(model.disable)).wait()
    statistics: Any = pstats.Stats(model, lookups)
    found: Counter[tuple[str, str]] = Counter()
    for (path, _, name), (_, _, _, total, _) in statistics.stats.items():
        found[Path(path).name, name] += total
    return {part: round(1e3 * found[place] / requests, 2) for part, place in PARTS.items()}


@contextmanager
def flights(sizes: Sizes) -> Iterator[dict[str, InFlight]]:
    """Start a runner for each memory."""
    with ExitStack() as stack:
        made: dict[str, InFlight] = {}
        for memory in (ALL, SOME):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            settings = RunnerSettings.from_environment().model_copy(
                update={"weights_dir": folder, **(_bytes_of(made) if memory == SOME else {})}
            )
            runner = stack.enter_context(ModelRunner(TextClassification(), settings))
            made[memory] = InFlight(runner, max(sizes.numbers))
        yield made


def _bytes_of(made: Mapping[str, InFlight]) -> dict[str, int]:
    size = IN_MEMORY * made[ALL].adapters[0].nbytes
    return {"adapter_memory_bytes": size, "adapter_owner_memory_bytes": size}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the numbers in flight, and how often each has its turn."""
    parser.add_argument("--rounds", type=int, default=Sizes().rounds)
    parser.add_argument("--numbers", type=int, nargs="+", default=Sizes().numbers)


def main() -> None:
    """Measure predictions a second by the number of adapters in flight."""
    chosen = arguments(main.__doc__, add_options)
    sizes = QUICK if chosen.quick else Sizes(chosen.numbers, chosen.rounds)
    precision = choose_precision(RunnerSettings.from_environment())
    with flights(sizes) as made:
        rows = measure(made, sizes)
        most, settings = max(sizes.numbers), made[ALL].runner.settings
        facts: dict[str, Any] = {
            "adapters ready on the device": settings.served_adapters,
            "bytes an adapter": made[ALL].adapters[0].nbytes,
            "callers": CALLERS,
            "requests a turn": sizes.requests,
            "rounds": sizes.rounds,
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "not set"),
        }
        facts |= {
            f"profiled ms a request, {memory}, {count}": profile(flight, count, sizes.requests)
            for memory, flight in made.items()
            for count in (sizes.numbers[0], most)
        }
    Report("Adapters in flight", COLUMNS, rows, facts).publish(precision, chosen.output)


if __name__ == "__main__":
    main()

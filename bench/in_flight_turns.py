"""The contestants of `bench.adapters_in_flight`: a process for each source tree, asked in turns.

A process imports this file from this tree and all else from its own. It reads a request a line and
answers each with a line, both JSON.
"""

import asyncio
import cProfile
import json
import os
import pstats
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from bench import data
from cog_adapt import ModelRunner, Recipe, Request, RunnerSettings, answer
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
    "module of its own": ("replicas.py", "serving_replica"),
    "head of its own": ("replicas.py", "serving_part"),
    "forward and answer": ("modes.py", "run_inference"),
    "tokens": ("decoding.py", "encoded"),
    "lookup, with its parts above": ("store.py", "get"),
}
COUNTS = {
    "modules made": ("replicas.py", "serving_replica"),
    "forwards": ("encoder.py", "forward"),
}


@dataclass(frozen=True)
class Turn:
    """What one turn of requests took, a request: seconds, CPU seconds, hits by tier."""

    seconds: float
    cpu: float
    device: float
    memory: float


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


def turn(flight: InFlight, count: int, requests: int, warm: int, seed: int) -> Turn:
    """Ask for `count` adapters, after some requests that do not count."""
    draws = drawn(count, seed)
    asyncio.run(flight.ask(islice(draws, warm)))
    before, began, cpu = flight.runner.gauges(), time.perf_counter(), time.process_time()
    asyncio.run(flight.ask(islice(draws, requests)))
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    after = flight.runner.gauges()

    def hits(tier: str) -> float:  # a shared forward counts no hit on the device, only a miss
        misses = f"adapters_{tier}_misses"
        return 1 - float(after[misses] - before[misses]) / requests

    return Turn(seconds / requests, cpu / requests, hits("device"), hits("memory"))


def profile(flight: InFlight, count: int, requests: int) -> dict[str, float]:
    """Profile the model thread and one that looks up; return ms and counts a request by part."""
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
    times, calls = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for (path, _, name), (_, called, _, total, _) in statistics.stats.items():
        times[Path(path).name, name] += total
        calls[Path(path).name, name] += called
    milliseconds = {
        f"{part}, ms": round(1e3 * times[place] / requests, 2) for part, place in PARTS.items()
    }
    return milliseconds | {
        part: round(calls[place] / requests, 3) for part, place in COUNTS.items()
    }


@contextmanager
def flights(count: int) -> Iterator[dict[str, InFlight]]:
    """Start a runner for each memory, with so many adapters."""
    with ExitStack() as stack:
        made: dict[str, InFlight] = {}
        for memory in (ALL, SOME):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            settings = RunnerSettings.from_environment().model_copy(
                update={"weights_dir": folder, **(_bytes_of(made) if memory == SOME else {})}
            )
            runner = stack.enter_context(ModelRunner(TextClassification(), settings))
            made[memory] = InFlight(runner, count)
        yield made


def _bytes_of(made: Mapping[str, InFlight]) -> dict[str, int]:
    size = IN_MEMORY * made[ALL].adapters[0].nbytes
    return {"adapter_memory_bytes": size, "adapter_owner_memory_bytes": size}


class Contestant:
    """A process that answers from a source tree, on the other side of a pipe.

    Args:
        tree: the folder of its sources.
        count: the adapters that it stores.
        threads: of each torch operation.
    """

    def __init__(self, tree: Path, count: int, threads: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(Path(__file__).resolve()), str(count), str(threads)],
            cwd=tree,
            env={**os.environ, "PYTHONPATH": str(tree)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The facts about its runner, once its adapters are stored."""
        return self._read()

    def turn(self, memory: str, **arguments: int) -> Turn:
        """Run a turn there."""
        return Turn(**self._asked({"memory": memory, "turn": arguments}))

    def profile(self, memory: str, **arguments: int) -> dict[str, float]:
        """Run a profile there."""
        return self._asked({"memory": memory, "profile": arguments})

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)

    def _asked(self, request: Mapping[str, Any]) -> dict[str, Any]:
        assert self.facts
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"a contestant ended with status {self._process.wait(60)}.")
        found: dict[str, Any] = json.loads(line)
        return found


def main(given: Sequence[str]) -> None:
    """Answer requests from the standard input until it is closed."""
    count, threads = map(int, given)
    torch.set_num_threads(threads)
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever else is printed
    with flights(count) as made:
        facts = {
            "adapters ready on the device": made[ALL].runner.settings.served_adapters,
            "bytes an adapter": made[ALL].adapters[0].nbytes,
        }
        print(json.dumps(facts), file=answers)
        for line in sys.stdin:
            print(json.dumps(_answered(made, json.loads(line))), file=answers)


def _answered(made: Mapping[str, InFlight], request: Mapping[str, Any]) -> Mapping[str, float]:
    flight = made[request["memory"]]
    if "turn" in request:
        return asdict(turn(flight, **request["turn"]))
    return profile(flight, **request["profile"])


if __name__ == "__main__":
    main(sys.argv[1:])

"""Adapts, cancels, fails and predicts at random, thousands of times, and looks for leaks.

The base must not change in a byte, memory must be flat once it is warm, and no ticket, thread or
descriptor may be left. Two adaptations do not fit into memory together, so many have to wait. The
model is small (`small_task`), so that the runner takes most of the time; the seed draws the order.
"""

import argparse
import asyncio
import gc
import json
import math
import os
import random
import string
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from torch import nn

from bench.report import Columns, Report, arguments
from bench.small_task import NOT_FINITE, UNFIT, SmallTask
from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.devices.device import choose_precision
from cog_adapt.runner.errors import AdaptationError, InputError
from cog_adapt.runner.inference.answers import Query
from cog_adapt.runner.inference.together import TOLERANCE
from cog_adapt.runner.model_runner import ModelRunner
from cog_adapt.runner.modules.adapters import Adapter
from cog_adapt.runner.scheduling.scheduler import once
from cog_adapt.runner.scheduling.tickets import Ticket

CYCLES, WARM, CHECK_EVERY = 10_000, 300, 500
FLAT_MEGABYTES = 8.0
_MEMORY_BYTES = 12 * 2**20  # one adaptation of the small task takes 8 MiB
_WEIGHTS = (2, 4, 4, 1, 1)  # of the kinds, in the order of `Cycles.run`; the last ones take longest
_ADAPTERS = 6
_LABELS = ("low", "mid", "high")
_METHODS = ("lora", "head", "norms", "all")

_COUNTED = ("cycles", "adapted", "cancelled", "failed", "batches", "waited", "checks")
_LEFT = ("base bytes changed", "tickets left", "threads", "descriptors")
COLUMNS: Columns = {
    **dict.fromkeys(("seed", *_COUNTED, *_LEFT), str),
    "memory MB": lambda value: f"{value:.0f}",
    "last third": lambda value: f"{value:+.1f}",
    "seconds": lambda value: f"{value:.0f}",
}


class Cycles:
    """One runner, and counts of its work."""

    def __init__(self, runner: ModelRunner, seed: int) -> None:
        self.runner = runner
        self.draw = random.Random(seed)
        self.adapters: list[Adapter] = []
        self.done: Counter[str] = Counter()
        self.changed = 0
        self._base = _bytes_of(runner.model.base.module)

    def run(self, cycles: int, until: float = math.inf) -> None:
        """Run cycles at random until a time; compare the base every now and then."""
        kinds: list[Callable[[], None]] = [self.adapt, self.cancel, self.fail, self.batch, self.two]
        for number in range(1, cycles + 1):
            if time.monotonic() >= until:
                break
            self.draw.choices(kinds, _WEIGHTS)[0]()
            self.done["cycles"] += 1
            if number % CHECK_EVERY == 0:
                self.compare()
        self.compare()

    def compare(self) -> None:
        """Count the base's bytes that differ from those at first."""
        now = _bytes_of(self.runner.model.base.module)
        self.changed += sum(
            len(raw) if raw.shape != now[name].shape else int((raw != now[name]).sum())
            for name, raw in self._base.items()
        )
        self.done["checks"] += 1

    def adapt(self) -> None:
        """Adapt, and hold the adapter for a while."""
        self._keep(self._submitted().wait())
        self.done["adapted"] += 1

    def cancel(self) -> None:
        """Leave an adaptation: at once, or after some progress."""
        ticket = self._submitted(steps=50)
        for _ in range(self.draw.randrange(4)):
            ticket.outbox.get(timeout=60)
        del ticket
        self.done["cancelled"] += 1

    def fail(self) -> None:
        """Adapt to inputs that cannot be encoded, or have a loss that is not finite."""
        spoiled = self.draw.choice((UNFIT, NOT_FINITE))
        try:
            self._submitted(spoiled).wait()
        except (InputError, AdaptationError):
            self.done["failed"] += 1
        else:
            raise RuntimeError(f"an adaptation to a text with {spoiled!r} has not failed")

    def batch(self) -> None:
        """Use several adapters at once, and each alone; compare."""
        chosen = [self.draw.choice([None, *self.adapters]) for _ in range(4)]
        texts = [[self._text() for _ in range(self.draw.randint(1, 3))] for _ in chosen]
        pairs = zip(texts, chosen, strict=True)
        queries = [Query(some, one, () if one else _LABELS) for some, one in pairs]
        together = asyncio.run(self._together(queries))
        for query, answers in zip(queries, together, strict=True):
            alone = self.runner.predict(query.inputs, query.adapter, query.labels)
            given = torch.tensor(answers), torch.tensor(alone)
            torch.testing.assert_close(*given, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
        self.done["batches"] += 1

    def two(self) -> None:
        """Adapt twice at once, so that one waits; leave one of them now and then."""
        tickets = [self._submitted(steps=4), self._submitted(steps=4)]
        if self.draw.random() < 0.5:
            del tickets[self.draw.randrange(2)]
            self.done["cancelled"] += 1
        for ticket in tickets:
            self._keep(ticket.wait())
            self.done["adapted"] += 1
        self.done["waited"] += 1

    def tickets_left(self) -> int:
        """Count the pieces of work that run or wait, after all had a turn."""
        for _ in range(3):
            self.runner.scheduler.submit_long(once(int)).wait()
        left = self.runner.scheduler.submit_long(once(len, self.runner.scheduler)).wait()
        return left + int(self.runner.gauges()["adaptations_waiting"])

    async def _together(self, queries: list[Query]) -> list[list[Any]]:
        return await asyncio.gather(*map(self.runner.predict_async, queries))

    def _submitted(self, spoiled: str = "", steps: int = 2) -> Ticket[Any]:
        examples = [Example(self._text() + spoiled, label) for label in _LABELS for _ in range(2)]
        recipe = Recipe(
            self.draw.choice(_METHODS),
            max_steps=steps,
            batch_size=4,
            seed=self.draw.randrange(10**6),
            hold_out=self.draw.choice((0.0, 0.3)),
        )
        return self.runner.submit_adaptation(examples, recipe)

    def _text(self) -> str:
        return "".join(self.draw.choices(string.ascii_lowercase, k=self.draw.randint(1, 12)))

    def _keep(self, done: Any) -> None:  # noqa: ANN401 - an Adaptation
        self.adapters.append(done.adapter)
        del self.adapters[:-_ADAPTERS]


def measure(cycles: int, seconds: float, seed: int) -> dict[str, Any]:
    """Run cycles, at most for some seconds; return the counts, and what is left."""
    began = time.monotonic()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        settings = RunnerSettings(
            device="cpu", weights_dir=Path(folder), adaptation_memory_bytes=_MEMORY_BYTES
        )
        with ModelRunner(SmallTask(), settings) as runner:
            work = Cycles(runner, seed)
            work.run(min(WARM, cycles // 3), began + seconds / 3)
            before = _state(work)
            work.run(2 * cycles // 3 - work.done["cycles"], began + 2 * seconds / 3)
            middle = _state(work)
            work.run(cycles - work.done["cycles"], began + seconds)
            after = _state(work)
    return {
        "seed": seed,
        **{name: work.done[name] for name in _COUNTED},
        "base bytes changed": work.changed,
        "memory MB": after["memory MB"],
        "last third": after["memory MB"] - middle["memory MB"],
        "tickets left": after["tickets"],
        "threads": after["threads"] - before["threads"],
        "descriptors": after["descriptors"] - before["descriptors"],
        "seconds": time.monotonic() - began,
    }


def left(row: Mapping[str, Any]) -> list[str]:
    """Say what changed, grew or was left."""
    words = [f"{name}: {row[name]}" for name in _LEFT if row[name] > 0]
    if row["last third"] > FLAT_MEGABYTES:
        words.append(f"memory: {row['last third']:+.1f} MB in the last third")
    return words


def _state(work: Cycles) -> dict[str, float]:
    tickets = work.tickets_left()
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "tickets": tickets,
        "threads": threading.active_count(),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "memory MB": pages * os.sysconf("SC_PAGE_SIZE") / 2**20,
    }


def _bytes_of(module: nn.Module) -> dict[str, torch.Tensor]:
    tensors = (*module.named_parameters(), *module.named_buffers())
    return {n: t.detach().cpu().reshape(-1).view(torch.uint8).clone() for n, t in tensors}


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cycles", type=int, default=CYCLES, help="of all processes together")
    parser.add_argument("--seconds", type=float, default=math.inf, help="after which none begins")
    parser.add_argument("--processes", type=int, default=1, help="each with a seed of its own")
    parser.add_argument("--seed", type=int, default=0, help="of the first process")
    parser.add_argument("--more", action="store_true", help="add a row to those of the output")


def main() -> None:
    """Run cycles, and look for what is left."""
    chosen = arguments(main.__doc__, _add_options)
    rows: list[dict[str, Any]] = []
    if chosen.more and chosen.output and chosen.output.exists():
        rows = json.loads(chosen.output.read_text("utf-8"))["rows"]
    count = 200 if chosen.quick else chosen.cycles // chosen.processes
    run = partial(measure, count, chosen.seconds)
    with ProcessPoolExecutor(chosen.processes, get_context("spawn")) as pool:
        rows += pool.map(run, range(chosen.seed, chosen.seed + chosen.processes))
    precision = choose_precision(RunnerSettings(device="cpu"))
    settings = {"cycles": sum(row["cycles"] for row in rows), "check every": CHECK_EVERY}
    Report("Cycles", COLUMNS, rows, settings).publish(precision, chosen.output)
    found = [words for row in rows for words in left(row)]
    if found:
        raise SystemExit("\n".join(found))


if __name__ == "__main__":
    main()

"""Latency against the number of callers, each of which asks again at once, and its plot."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from bench.report import Spread
from cog_adapt.runner.inference.answers import Query
from cog_adapt.runner.model_runner import ModelRunner

Row = dict[str, Any]
MakeQuery = Callable[..., Query]


@dataclass(frozen=True)
class Sizes:
    """Rounds of each comparison, predictions of each latency, and callers of the plot."""

    rounds: int = 15
    predictions: int = 200
    long_texts: int = 256
    callers: Sequence[int] = (1, 2, 4, 8, 16, 32)


async def timed(call: Awaitable[object]) -> float:
    """Return the milliseconds of a call."""
    began = time.perf_counter()
    await call
    return (time.perf_counter() - began) * 1e3


def latency_row(what: str, times: list[float]) -> Row:
    """Make a row of latencies."""
    ordered = sorted(times)
    high = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
    return {"what": what, "ms": Spread.of(times), "p99 ms": Spread.of([high])}


async def under_load(query: MakeQuery, runner: ModelRunner, sizes: Sizes) -> list[Row]:
    """Measure latency and throughput for numbers of callers that each ask again at once."""
    rows = []
    for alone in (False, True):
        for callers in sizes.callers:
            count = max(2, sizes.predictions // callers)
            began = time.perf_counter()
            some = await asyncio.gather(
                *(caller(runner, _queries(query, first, count, alone)) for first in range(callers))
            )
            rate = callers * count / (time.perf_counter() - began)
            name = f"{callers} callers, {'each alone' if alone else 'shared'}"
            row = latency_row(name, [lasted for times in some for lasted in times])
            rows.append(row | {"callers": callers, "alone": alone, "requests a second": rate})
    return rows


def _queries(query: MakeQuery, first: int, count: int, alone: bool) -> list[Query]:
    return [query(first + number, deterministic=alone) for number in range(count)]


async def caller(runner: ModelRunner, queries: Sequence[Query]) -> list[float]:
    """Send one request after another."""
    return [await timed(runner.predict_async(query)) for query in queries]


def plot(rows: Sequence[Row], path: Path) -> None:
    """Draw latency against callers."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot(xscale="log", yscale="log", xlabel="callers", ylabel="ms")
    for alone, colour in ((False, "tab:blue"), (True, "tab:orange")):
        some = [row for row in rows if row.get("alone") is alone]
        callers = [row["callers"] for row in some]
        name = "each alone" if alone else "shared forwards"
        for key, style in (("ms", "-"), ("p99 ms", "--")):
            label = f"{name}, {'median' if key == 'ms' else 'p99'}"
            axes.plot(callers, [row[key].median for row in some], style, c=colour, label=label)
    axes.set_xticks([*dict.fromkeys(row["callers"] for row in rows if "callers" in row)])
    axes.get_xaxis().set_major_formatter("{x:.0f}")
    axes.set_title("Latency against load: one text a request, 8 adapters by turns")
    axes.legend()
    figure.savefig(path, dpi=120)

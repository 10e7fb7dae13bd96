"""Measures a request with known examples, beside a plain prediction.

All are whole requests (`cog_adapt.answer`) for one text on one event loop; they take turns of
several calls, and the first call of a turn is not counted. A round compares medians.
"""

import asyncio
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from bench import data
from bench.report import (
    Columns,
    Report,
    Spread,
    arguments,
    clock,
    interleave,
    milliseconds,
    ratio,
)
from cog_adapt import ModelRunner, Recipe, Request, RunnerSettings, answer
from cog_adapt.runner.devices.device import choose_precision
from task import TextClassification

TEXT = "I was charged twice for one order."
PLAIN, NAMED, KNOWN = "base, by label names", "adapter, by its id", "the same examples again"
EXAMPLES_PER_LABEL = 8
COLUMNS: Columns = {
    "request": str,
    "ms": milliseconds,
    "of plain": ratio,
    "of the adapter's": ratio,
}

Ask = Callable[[Request], Any]


def asker(runner: ModelRunner, loop: asyncio.AbstractEventLoop) -> Ask:
    """Make a function that answers a request, metrics included."""
    metrics: dict[str, Any] = {}
    scope = SimpleNamespace(context={}, record_metric=metrics.__setitem__)
    return lambda request: loop.run_until_complete(answer(runner, request, scope))


def requests(ask: Ask, steps: int) -> dict[str, Request]:
    """Return the requests by name, once the examples are known."""
    rows = data.split(EXAMPLES_PER_LABEL, 0).train
    examples = [{"text": row.input, "label": row.target} for row in rows]
    known = Request([TEXT], examples=examples, recipe=Recipe(max_steps=steps))
    made = ask(known)
    return {
        PLAIN: Request([TEXT], labels=data.LABELS),
        NAMED: Request([TEXT], adapter=made.adapter),
        KNOWN: known,
    }


def measure(settings: RunnerSettings, rounds: int, calls: int, steps: int) -> Report:
    """Let the requests take turns."""
    device = choose_precision(settings).device
    loop = asyncio.new_event_loop()
    with ModelRunner(TextClassification(), settings) as runner:
        ask = asker(runner, loop)

        def timed(request: Request) -> Callable[[int], float]:
            def turn(_: int) -> float:
                times = []
                for _ in range(calls + 1):
                    began = clock(device)
                    ask(request)
                    times.append((clock(device) - began) * 1000)
                return statistics.median(times[1:])

            return turn

        turns = {name: timed(request) for name, request in requests(ask, steps).items()}
        interleave(turns, 1)
        times = interleave(turns, rounds)
        taken = runner.gauges()["adaptations_run"]
    loop.close()
    facts = {"rounds": rounds, "calls a round": calls, "adaptations run": taken}
    return Report("A request whose examples are known", COLUMNS, rows(times), facts)


def rows(times: dict[str, list[float]]) -> list[dict[str, Any]]:
    """Make a row for each request, with its time relative to the plain one of the same round."""
    return [
        {
            "request": name,
            "ms": Spread.of(own),
            "of plain": _by(own, times[PLAIN]),
            "of the adapter's": _by(own, times[NAMED]),
        }
        for name, own in times.items()
    ]


def _by(times: list[float], others: list[float]) -> Spread:
    return Spread.of([time / other for time, other in zip(times, others, strict=True)])


def main() -> None:
    """Measure a request with known examples."""
    chosen = arguments(main.__doc__)
    with tempfile.TemporaryDirectory() as folder:
        settings = RunnerSettings.from_environment().model_copy(
            update={"weights_dir": Path(folder)}
        )
        sizes = (2, 3, 1) if chosen.quick else (40, 10, 3)
        measure(settings, *sizes).publish(choose_precision(settings), chosen.output)


if __name__ == "__main__":
    main()

"""Measures serving a no-op: this project's server, coglet, plain FastAPI, LitServe, mosec.

All servers run all the time and take turns (`bench.serving_turns`). The latencies of a round give
percentiles, and the table shows their medians and quartiles over the rounds. "CPU ms" is the CPU
time of the server's threads for each answer with a 2xx status; other work on the machine disturbs
it least. A stream that lacks items counts as an answer without a 2xx status.

With `--tree NAME=DIR`, given twice, this project's server is compared with itself: the sources of
two folders, beside plain FastAPI (`bench.serving_trees`).
"""

import argparse
import statistics
from functools import partial
from itertools import product

from bench import serving_servers as servers
from bench import serving_trees as trees
from bench.report import Columns, Report, Row, Spread, arguments, percent
from bench.serving_servers import PREDICTORS, RIVALS
from bench.serving_turns import CASES, PINNED, QUICK, STREAM, Results, Sizes, Start, measure
from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.devices.device import choose_precision

MIRROR, COGLET, FLOOR = "mirror", "coglet", "FastAPI"


def short(spread: Spread) -> str:
    """Format the median and quartiles of values of any size."""
    median, low, high = spread.median, spread.lower_quartile, spread.upper_quartile
    digits = 0 if median >= 100 else 3
    return f"{median:.{digits}f} ({low:.{digits}f}–{high:.{digits}f})"


COLUMNS: Columns = {
    "server": str,
    "case": str,
    "cores": str,
    "per second": short,
    "p50 ms": short,
    "p99 ms": short,
    "CPU ms": short,
    "non-2xx": percent,
}


def starts(sizes: Sizes) -> list[Start]:
    """Return the servers to start."""
    cogs = product((servers.mirror, servers.coglet), PREDICTORS)
    rivals = [servers.litserve, servers.mosec] if sizes.rivals else []
    return [
        *(partial(start, predictor=predictor) for start, predictor in cogs),
        servers.floor,
        *rivals,
    ]


def rows(results: Results) -> list[Row]:
    """Make a row for each server, case and placement."""
    ordered = sorted(results, key=lambda key: (key[2] != PINNED, CASES.index(key[1])))
    table: list[Row] = []
    for key in ordered:
        turns = results[key]
        spreads = {name: Spread.of([turn[name] for turn in turns]) for name in turns[0]}
        table.append({"server": key[0], "case": key[1], "cores": key[2], **spreads})
    return table


def goals(results: Results) -> dict[str, str]:
    """Return the goals and the results; differences are taken within each round."""

    def numbers(server: str, case: str, what: str) -> list[float]:
        return [turn[what] for turn in results[server, case, PINNED]]

    def added(ours: str, theirs: str) -> float:
        pairs = zip(
            numbers(ours, "1 at a time", "p50 ms"),
            numbers(theirs, "1 at a time", "p50 ms"),
            strict=True,
        )
        return statistics.median(our - their for our, their in pairs)

    def rates(case: str, kind: str) -> str:
        ours, theirs = (
            statistics.median(numbers(f"{name}{kind}", case, "per second"))
            for name in (MIRROR, COGLET)
        )
        return f"{ours:.0f} and {theirs:.0f}"

    refused = max(
        turn.get("non-2xx", 0.0)
        for (server, _, _), turns in results.items()
        if server.startswith(MIRROR)
        for turn in turns
    )
    return {
        "p50 over FastAPI's, ms (at most 0.5)": f"{added(f'{MIRROR}, sync', FLOOR):.3f}",
        "p50 over coglet's, ms (below 0)": f"{added(f'{MIRROR}, sync', f'{COGLET}, sync'):.3f}",
        "requests/s of 16, async, mirror and coglet": rates("16 at a time", ", async"),
        "requests/s of 16, sync, mirror and coglet": rates("16 at a time", ", sync"),
        "items/s, mirror (3500 at least) and coglet": rates(STREAM, ""),
        "mirror's largest share of non-2xx": f"{refused:.2%}",
    }


def beside_others(chosen: argparse.Namespace) -> Report:
    """Compare this project's server with other servers."""
    sizes = QUICK if chosen.quick else Sizes()
    results = measure(starts(sizes), sizes)
    rivals = list(RIVALS.values()) if sizes.rivals else []
    facts = {**goals(results), **sizes.facts(), "rivals": rivals}
    return Report("Serving a no-op", COLUMNS, rows(results), facts)


def main() -> None:
    """Measure what serving a no-op costs, beside other servers or of two trees of sources."""
    chosen = arguments(main.__doc__, trees.add_options)
    report = trees.compare(chosen) if chosen.tree else beside_others(chosen)
    report.publish(choose_precision(RunnerSettings.from_environment()), chosen.output)


if __name__ == "__main__":
    main()

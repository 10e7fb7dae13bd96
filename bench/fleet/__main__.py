"""Measures, checks and simulates a fleet; each part can be run by itself."""

import argparse
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

import torch

from bench.fleet.check import BUDGETS, COUNTS, Load, check
from bench.fleet.figures import figures
from bench.fleet.limits import BYTES_A_SECOND, FIRST_BYTE_SECONDS
from bench.fleet.measured import SIZES, Way, commits, way
from bench.fleet.placement import PLACEMENTS, RANDOM
from bench.fleet.report import page
from bench.fleet.simulation import Fleet, Times, simulate
from bench.fleet.tiers import Budgets
from bench.report import arguments, environment
from gradient_check.phases.precision import Precision

ADAPTERS = {"300 KB": 1_000_000, "100 MB": 10_000}
BYTES = {"300 KB": 300_000, "100 MB": 100_000_000}
SERVERS = (1, 8, 64, 1000)
LOAD = 0.4
DEVICE, MEMORY, DISK = 80e9, 64e9, 500e9
"""Bytes of one server; adapters get an eighth, an eighth and a quarter of them by default."""
HELD = f"{DEVICE / 1e9:.0f}, {MEMORY / 1e9:.0f} and {DISK / 1e9:.0f} GB"


def times_of(name: str, measured: Way) -> Times:
    """Return the times of a request for an adapter of a size."""
    found = figures()
    forward, replica = found["forward"].value, found["replica"].value
    return Times(
        forward=forward / 1e3,
        ready=replica / 1e3,
        disk=(measured.read + measured.decode) / 1e3,
        store=FIRST_BYTE_SECONDS + BYTES[name] / BYTES_A_SECOND,
    )


def simulated(chosen: argparse.Namespace, numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Simulate all sizes and placements."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for name, servers, placement in product(ADAPTERS, chosen.servers, PLACEMENTS):
        if servers == 1 and placement != RANDOM:  # where one server is, all are alike
            continue
        fleet = _fleet(name, servers, Way(**numbers["measured"]["ways"][name]), quick=chosen.quick)
        found = asdict(simulate(fleet, placement, chosen.requests))
        row = {"servers": servers, "placement": placement, **_rounded(found)}
        rows.setdefault(f"{ADAPTERS[name]:,} of {name}", []).append(row)
    settings = {
        "requests": chosen.requests,
        "load, of servers whose modules are all ready,": LOAD,
        "Zipf's exponent": 1.0,
        "adapters ready": 16,
        "bytes of device, memory and disk": HELD,
    }
    sizes = {f"{count:,} of {name}": BYTES[name] for name, count in ADAPTERS.items()}
    return {"settings": settings, "load": LOAD, "sizes": sizes, "rows": rows}


def _fleet(name: str, servers: int, measured: Way, *, quick: bool) -> Fleet:
    budgets = Budgets.of_bytes(
        BYTES[name],
        served=16,
        device=int(DEVICE / 8),
        memory=int(MEMORY / 8),
        disk=int(DISK / 4),
    )
    adapters = ADAPTERS[name] // 100 if quick else ADAPTERS[name]
    return Fleet(servers, adapters, BYTES[name], budgets, times_of(name, measured), LOAD)


def measured(chosen: argparse.Namespace, _: Mapping[str, Any]) -> dict[str, Any]:
    """Measure this machine."""
    ways = {name: asdict(way(name, 2 if chosen.quick else 7)) for name in SIZES}
    seconds = 1.0 if chosen.quick else 5.0
    urls = {"SQLite": "", **({"PostgreSQL": chosen.database} if chosen.database else {})}
    found = [
        {"database": name, **asdict(commits(url, servers, seconds))}
        for name, url in urls.items()
        for servers in ((1,) if name == "SQLite" else (1, 4))
    ]
    return {"ways": ways, "commits": found}


def checked(chosen: argparse.Namespace, _: Mapping[str, Any]) -> dict[str, Any]:
    """Check one server."""
    load = Load(chosen.warm, chosen.checked)
    rows = [asdict(each) for each in check(chosen.counts, load)]
    budgets = f"{BUDGETS.device}, {BUDGETS.memory} and {BUDGETS.disk}"
    settings = {"measured / simulated; ready, in memory and on disk": budgets}
    return {"settings": settings | asdict(load), "rows": rows}


PARTS: Mapping[str, Callable[[argparse.Namespace, Mapping[str, Any]], dict[str, Any]]] = {
    "measured": measured,
    "check": checked,
    "simulated": simulated,
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the parts and their sizes."""
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=[*PARTS])
    parser.add_argument("--database", default="", help="URL of an empty PostgreSQL, for commits")
    parser.add_argument("--servers", type=int, nargs="+", default=SERVERS)
    parser.add_argument("--requests", type=int, default=150_000, help="of each simulation")
    parser.add_argument("--counts", type=int, nargs="+", default=COUNTS, help="of the check")
    parser.add_argument("--warm", type=int, default=Load().warm)
    parser.add_argument("--checked", type=int, default=Load().requests)


def main() -> None:
    """Run the parts, and write `fleet.json` and `fleet.md` beside each other."""
    chosen = arguments(main.__doc__, add_options)
    output: Path | None = chosen.output
    numbers: dict[str, Any] = {}
    if output is not None and output.exists():
        numbers = json.loads(output.read_text("utf-8"))
    numbers["times"] = {name: asdict(figure) for name, figure in figures().items()}
    for name in chosen.parts:
        made = PARTS[name](chosen, numbers)
        made["date"] = time.strftime("%Y-%m-%d", time.gmtime())
        made["environment"] = environment(Precision(torch.device("cpu")))
        numbers[name] = made
    text = page(numbers)
    print(text)
    if output is not None:
        output.write_text(json.dumps(numbers, indent=2) + "\n", "utf-8")
        output.with_suffix(".md").write_text(text, "utf-8")


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {name: float(f"{value:.5g}") for name, value in values.items()}


if __name__ == "__main__":
    main()

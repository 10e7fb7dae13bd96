"""The tables of `docs/results/fleet.md`, made from the numbers of `fleet.json`."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

from bench.fleet.limits import Prices, cost, saturation
from bench.fleet.placement import WARM_NEAR

Numbers = Mapping[str, Any]
BUSY = 0.5  # share of the paid time that adapts
SPEEDS = (1, 10, 50)
ADAPTED = ("closed form", "LoRA, 20 steps", "auto")


def page(numbers: Numbers) -> str:
    """Return the page: each part that was measured or simulated has its table."""
    parts = {
        "measured": _measured,
        "check": _check,
        "simulated": _simulated,
    }
    made = [_times(numbers), _capacity(numbers)]
    made += [show(numbers) for name, show in parts.items() if name in numbers]
    if "simulated" in numbers:
        made += [_saturation(numbers), _costs(numbers)]
    head = "# A fleet, simulated\n\nWritten by `python -m bench.fleet`; `docs/scale.md` reads it.\n"
    return "\n".join([head, *made])


def table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table in Markdown."""
    lines = [titles, ["---"] * len(titles), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def _times(numbers: Numbers) -> str:
    rows = [
        (name, f"{each['value']:.4g} {each['unit']}", each["source"])
        for name, each in numbers["times"].items()
    ]
    return "## Times that are taken\n\n" + table(("what", "", "from"), rows)


def _capacity(numbers: Numbers) -> str:
    times = {name: each["value"] for name, each in numbers["times"].items()}
    rows = [(f"adaptations an hour, {name}", f"{3600 / times[name]:,.0f}") for name in ADAPTED]
    rows += [
        ("predictions a second, one after the other", f"{1e3 / times['one request']:.0f}"),
        ("predictions a second, 32 at once", f"{32e3 / times['32 requests of 8 adapters']:.0f}"),
        ("no-ops a second, front process", f"{1e3 / times['front']:,.0f}"),
    ]
    return "## A core's capacity\n\n" + table(("what", "a core"), rows)


def _measured(numbers: Numbers) -> str:
    found = numbers["measured"]
    rows = [
        (name, f"{way['read']:.2f}", f"{way['decode']:.2f}", f"{way['store']:.2f}")
        for name, way in found["ways"].items()
    ]
    text = "## Measured here\n\n"
    text += table(("adapter", "file, ms", "decode and digest, ms", "store by file, ms"), rows)
    commits = [
        (each["database"], each["servers"], f"{each['records']:.0f}") for each in found["commits"]
    ]
    return text + "\n" + table(("database", "servers", "records a second"), commits)


def _check(numbers: Numbers) -> str:
    text = "## One server, measured and simulated\n\n"
    rows = []
    for each in numbers["check"]["rows"]:
        pairs = [
            f"{each['measured'][tier]:.3f} / {each['simulated'][tier]:.3f}"
            for tier in ("ready", "memory", "disk", "store")
        ]
        rates = f"{each['a_second']:.1f} / {each['simulated_a_second']:.1f}"
        rows.append((each["adapters"], *pairs, rates))
    titles = ("adapters", "ready", "memory", "disk", "store", "a second")
    return text + _sentence(numbers["check"]["settings"]) + table(titles, rows)


def _simulated(numbers: Numbers) -> str:
    found = numbers["simulated"]
    text = "## Simulated\n\n" + _sentence(found["settings"])
    for name, rows in found["rows"].items():
        lines = [
            (
                each["servers"],
                each["placement"],
                *(f"{each[tier]:.3f}" for tier in ("ready", "memory", "disk", "store")),
                f"{each['moved'] / 1e3:,.0f}",
                f"{each['busy']:.2f}",
                f"{each['busiest']:.1f}",
                f"{1e3 * each['median']:.0f}",
                f"{1e3 * each['p99']:.0f}",
            )
            for each in rows
        ]
        titles = ["servers", "placement", "ready", "memory", "disk", "store"]
        titles += ["KB a request", "busy", "busiest", "median, ms", "p99, ms"]
        text += f"\n{name}:\n\n" + table(titles, lines)
    return text


def _saturation(numbers: Numbers) -> str:
    front = numbers["times"]["front"]["value"] / 1e3
    forward, load = numbers["times"]["forward"]["value"] / 1e3, numbers["simulated"]["load"]
    rows = []
    for name, simulated in numbers["simulated"]["rows"].items():
        far = [each for each in simulated if each["placement"] == WARM_NEAR][-1]
        for speed in SPEEDS:
            used = saturation(
                a_second=load * speed / forward,
                front=front,
                records=_most_records(numbers),
                far=far["store"],
                size=numbers["simulated"]["sizes"][name],
            )
            rows.append(
                (
                    name,
                    speed,
                    f"{used.a_second:.0f}",
                    f"{used.front:.0%}",
                    f"{used.database:,.0f}" if used.database else "–",
                    f"{used.store:,.0f}" if used.store else "–",
                    f"{used.gigabits:.2f}",
                )
            )
    titles = ["adapters", "speed", "predictions a second, one server", "front's core"]
    titles += ["servers to the database's limit", "to the store's", "Gbit/s from the store"]
    return "## What saturates first\n\n" + table(titles, rows)


def _most_records(numbers: Numbers) -> float | None:
    rows = numbers.get("measured", {}).get("commits", [])
    found = [each["records"] for each in rows if each["database"] == "PostgreSQL"]
    return max(found, default=None)


def _costs(numbers: Numbers) -> str:
    rows = []
    sizes = numbers["simulated"]["sizes"].items()
    for what, speed, (name, size) in product(ADAPTED, SPEEDS, sizes):
        made = cost(numbers["times"][what]["value"] / speed, BUSY, size, Prices())
        parts = (made.computing, made.keeping, made.writing, made.all)
        rows.append((what, speed, name.rpartition(" of ")[2], *(f"{each:,.0f}" for each in parts)))
    titles = ("method", "speed", "adapters", "computing, $", "a month's store, $", "writes, $", "$")
    return "## A million adaptations, at example prices\n\n" + table(titles, rows)


def _sentence(settings: Mapping[str, Any]) -> str:
    return "; ".join(f"{name} {value}" for name, value in settings.items()) + ".\n\n"

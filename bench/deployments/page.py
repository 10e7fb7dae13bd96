"""The table of the walks."""

from collections.abc import Mapping
from typing import Any

STEPS = (
    "the adapter answers the same",
    "the adapter answers the same afterwards",
    "the record is kept",
    "ended without an error",
)
"""Findings that must be true."""

ROWS = (
    "date",
    "load of the machine",
    "seconds until ready",
    "seconds of the adaptation",
    STEPS[0],
    "servers that Prometheus sees",
    "predictions that ended",
    "panels that answer",
    "panels without an answer",
    "seconds to replace",
    *STEPS[1:3],
    "seconds to end",
    STEPS[3],
)
_HEAD = """\
# Each deployment, walked through

Written by `python -m bench.deployments`; a column each. A walk starts the servers, adapts by 48
examples, and asks by the adapter; the same answer is the same bit for bit (`deterministic=true`).
It sends a load with refused requests and with webhooks while Prometheus scrapes with the files of
`deploy/monitoring/`, and asks each expression of the dashboard. It replaces all servers, asks again
by the adapter and for the first record, and ends all. The load of the machine is the mean number of
running processes in the minute before.

"""
_WAYS = {
    "server": "`python -m server`, SQLite; SIGTERM and a new start",
    "servers": "two servers, PostgreSQL and one folder of adapters behind HAProxy; in turn SIGTERM "
    "and a new start",
    "docker": "`docker run`; `docker rm -f` and `docker run` with the same volume",
    "compose": "`deploy/compose/compose.yaml` with PostgreSQL; `up --force-recreate`",
    "ray": "`serve deploy` with two replicas and PostgreSQL; `serve deploy` with another option",
}


def missing(panels: Mapping[str, list[int]]) -> list[str]:
    """Return the titles of the panels of which an expression has no answer."""
    return [title for title, counts in panels.items() if 0 in counts]


def failed(found: Mapping[str, Any]) -> list[str]:
    """Return the steps that did not hold."""
    return [step for step in STEPS if not found.get(step)]


def _cell(found: Mapping[str, Any], row: str) -> str:
    panels = found["panels"]
    silent = missing(panels)
    derived = {
        "panels that answer": f"{len(panels) - len(silent)} of {len(panels)}",
        "panels without an answer": ", ".join(silent) or "none",
    }
    value = found[row] if row in found else derived[row]
    return {True: "yes", False: "**no**"}[value] if isinstance(value, bool) else str(value)


def page(walks: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page of all walks, in the order of the table above."""
    names = [name for name in _WAYS if name in walks]
    lines = [["", *names], ["---"] * (len(names) + 1)]
    lines += [[row, *(_cell(walks[name], row) for name in names)] for row in ROWS]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    ways = "\n".join(
        f"- {name}: {_WAYS[name]}. [Its panels](../images/dashboard-{name}.png)." for name in names
    )
    return f"{_HEAD}{table}\n\nHow each runs, and how its servers are replaced:\n\n{ways}\n"

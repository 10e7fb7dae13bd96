"""The figures of a run of these tests: a table, and its numbers."""

import json
import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.cog_adapt.deploy.ray.calling import Called

VARIABLE = "RAY_FIGURES"
_HEAD = """\
# Ray Serve: what a killed replica, a killed node and an update cost

Written by `make ray` on {cores} cores, Python {python}, Ray {ray}: three Ray nodes on one machine,
HAProxy mode, PostgreSQL, two replicas with a small model. *Cut*: answers of the proxy's own and
connections that broke; each of these requests was answered under its id afterwards. *Slowest*: from
the request until the end of its run was read. *Event*: from the kill, or from the order to update,
until all runs had ended and two replicas served again. *Begun again*: from the kill until the last
run of the dead began elsewhere.

| event | requests | failed | cut | median, s | slowest, s | begun again, s | event, s |
|---|---|---|---|---|---|---|---|
"""


class Figures:
    """Rows by event, in the order of the tests."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def add(
        self, event: str, called: list[Called], *, killed: datetime | None, seconds: float
    ) -> None:
        """Add what became of requests; `killed` is when a server was."""
        times = sorted(each.seconds for each in called)
        starts = [each.record["started_at"] for each in called if "started_at" in each.record]
        begun = max(map(datetime.fromisoformat, starts))
        self.rows.append(
            {
                "event": event,
                "requests": len(called),
                "failed": sum(each.status != "succeeded" for each in called),
                "cut": sum(each.cuts > 0 for each in called),
                "median_s": round(times[len(times) // 2], 1),
                "slowest_s": round(times[-1], 1),
                "begun_again_s": round((begun - killed).total_seconds(), 1) if killed else None,
                "event_s": round(seconds, 1),
            }
        )

    def write(self) -> None:
        """Write what was counted to the file that the environment names, and a page beside it."""
        name = os.environ.get(VARIABLE)
        if not name:
            return
        import ray

        facts = {
            "date": f"{datetime.now(UTC):%Y-%m-%d}",
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "ray": ray.__version__,
        }
        output = Path(name)
        output.write_text(json.dumps({**facts, "rows": self.rows}, indent=2) + "\n")
        lines = ("| " + " | ".join(map(_shown, row.values())) + " |\n" for row in self.rows)
        output.with_suffix(".md").write_text(_HEAD.format(**facts) + "".join(lines))


def _shown(value: object) -> str:
    return "–" if value is None else str(value)

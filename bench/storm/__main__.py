"""Sends a thousand mixed requests to three servers of one PostgreSQL that are killed in turn.

Predictions, adaptations, trainings, streams, webhooks and cancels, most with `retries`: each must
have one final state and at most one `completed` webhook; no owner may see another's; of equal
adaptations never two may run at once.
"""

import argparse
import asyncio
import signal
import sys
import tempfile
from pathlib import Path

from bench.postgres import Cluster, find_binaries
from bench.report import Columns, Report, arguments, console
from bench.storm.clients import MOST_SECONDS, Clients
from bench.storm.judge import Judge
from bench.storm.kills import Kills
from bench.storm.noted import Noted
from bench.storm.receiver import Receiver
from bench.storm.requests import WITHOUT_RETRIES, plan
from bench.storm.servers import SLOTS, Fleet
from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.devices.device import choose_precision

COLUMNS: Columns = {"what": str, "count": str}


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--stops", type=int, default=2, help="of a server that goes on later")
    parser.add_argument("--in-flight", type=int, default=72, help="requests at once")
    parser.add_argument("--steps", type=int, default=30, help="of an adaptation")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="keep logs here")


def main() -> None:
    """Send requests to three servers that are killed in turn; exit with 1 if a promise breaks."""
    chosen = arguments(main.__doc__, _add_options)
    if chosen.quick:
        chosen.requests, chosen.kills, chosen.stops, chosen.steps = 60, 1, 0, 5
    binaries = find_binaries()
    if binaries is None:
        sys.exit("ERROR: PostgreSQL is not installed; run .ci/postgres")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ERROR: ended by SIGTERM"))  # all is stopped
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        database = Cluster(binaries)
        fleet = Fleet(folder, database)
        try:
            fleet.start()
            broken = asyncio.run(_storm(fleet, chosen))
        finally:
            fleet.stop()
            database.remove()
    for each in broken[:50]:
        console.print(f"broken: {each}")
    sys.exit(bool(broken))


async def _storm(fleet: Fleet, chosen: argparse.Namespace) -> list[str]:
    clients = Clients(fleet.url, chosen.seed, chosen.in_flight)
    kills = Kills(fleet, most=chosen.kills, stops=chosen.stops, seed=chosen.seed)
    with Receiver() as receiver:
        planned = plan(chosen.requests, chosen.seed, receiver.url, chosen.steps)
        kills.start()
        await clients.run(planned, lambda: kills.share)
        await asyncio.to_thread(kills.join)
        await clients.look_again()
        await asyncio.sleep(5.0)  # webhooks of the last ends
    await clients.close()
    judge = Judge(clients.outcomes, receiver.ends, Noted.read(fleet.step_log), kills.done)
    broken = judge.broken_promises() + clients.spy.seen
    if kills.error:
        broken.append(f"the kills ended early: {kills.error}")
    rows = judge.counts() + judge.kill_rows()
    rows += [
        {"what": "looks at other owners' records and adapters", "count": clients.spy.looks},
        {"what": "broken promises", "count": len(broken)},
    ]
    settings = {
        "requests": chosen.requests,
        "share without retries": WITHOUT_RETRIES,
        "requests in flight": chosen.in_flight,
        "seconds until a client gives up": MOST_SECONDS,
        "steps of an adaptation": chosen.steps,
        "slots of a server": SLOTS,
        "kills": chosen.kills,
        "servers that stand still for 15 s": chosen.stops,
        "seed": chosen.seed,
    }
    report = Report("Three servers, killed in turn", COLUMNS, rows, settings)
    report.publish(choose_precision(RunnerSettings.from_environment()), chosen.output)
    return broken


if __name__ == "__main__":
    main()

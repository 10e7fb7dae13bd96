"""Measures the store's processor time: a put, a get and a list by obstore, and by s3fs.

Both ask one S3 server (moto) in a process of its own, on loopback, and take turns. What counts is
the processor time of this process alone, threads included, so the server costs nothing here.
"""

import contextlib
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

from bench.report import Columns, Report, Spread, arguments, interleave, milliseconds, ratio
from cog_adapt import RunnerSettings
from cog_adapt.runner.devices.device import choose_precision
from cog_adapt.runner.storage.objects import open_objects

URL = "s3://adapters/bench"
CONTENT = b"a" * 300_000  # bytes of a small adapter
LISTED = 300
COLUMNS: Columns = {
    "call": str,
    "s3fs, ms": milliseconds,
    "obstore, ms": milliseconds,
    "of s3fs": ratio,
}

Call = Callable[[], object]


def serve(port: Connection) -> None:
    """Run an S3 server until the process is ended; send its port."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    port.send(server.get_host_and_port()[1])
    time.sleep(3600)


@contextlib.contextmanager
def s3_server() -> Iterator[None]:
    """Give the account of a server with an empty bucket to this process's environment."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=serve, args=(there,), daemon=True)
    process.start()
    os.environ |= {
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{here.recv()}",
    }
    try:
        yield
    finally:
        process.terminate()
        process.join()


def calls_of_s3fs() -> dict[str, Call]:
    """Return the calls that this project made until it used obstore."""
    import s3fs

    files = s3fs.S3FileSystem(use_ssl=False)
    if not files.exists("adapters"):
        files.mkdir("adapters")

    def listed() -> object:
        files.invalidate_cache()
        return files.find("adapters/bench/many")

    return {
        "put": lambda: files.pipe_file("adapters/bench/s3fs", CONTENT),
        "get": lambda: files.cat_file("adapters/bench/s3fs"),
        "list": listed,
    }


def calls_of_obstore() -> dict[str, Call]:
    """Return the calls that this project makes."""
    objects = open_objects(URL)
    for number in range(LISTED):
        objects.put(f"many/{number}", b"")
    return {
        "put": lambda: objects.put("obstore", CONTENT),
        "get": lambda: objects.get("obstore"),
        "list": lambda: [*objects.list("many")],
    }


def measure(rounds: int, calls: int) -> Report:
    """Let both take turns."""

    def timed(call: Call) -> Callable[[int], float]:
        def turn(_: int) -> float:
            began = time.process_time()
            for _ in range(calls):
                call()
            return (time.process_time() - began) * 1000 / calls

        return turn

    with s3_server():
        both = {"s3fs": calls_of_s3fs(), "obstore": calls_of_obstore()}
        turns = {
            f"{call} {name}": timed(made[call])
            for call in both["s3fs"]
            for name, made in both.items()
        }
        interleave(turns, 1)
        times = interleave(turns, rounds)
    facts = {"rounds": rounds, "calls a round": calls, "bytes": len(CONTENT), "listed": LISTED}
    return Report("A call of the store", COLUMNS, rows(times, [*both["s3fs"]]), facts)


def rows(times: dict[str, list[float]], calls: list[str]) -> list[dict[str, Any]]:
    """Make a row for each call; the ratio is of the turns of one round."""
    made = []
    for call in calls:
        before, now = times[f"{call} s3fs"], times[f"{call} obstore"]
        parts = [mine / other for mine, other in zip(now, before, strict=True)]
        made.append(
            {
                "call": call,
                "s3fs, ms": Spread.of(before),
                "obstore, ms": Spread.of(now),
                "of s3fs": Spread.of(parts),
            }
        )
    return made


def main() -> None:
    """Measure the processor time of the store."""
    chosen = arguments(main.__doc__)
    report = measure(*((2, 2) if chosen.quick else (20, 20)))
    report.publish(choose_precision(RunnerSettings.from_environment()), chosen.output)


if __name__ == "__main__":
    main()

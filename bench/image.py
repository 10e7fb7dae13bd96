"""An image's bytes by layer, and the seconds from `docker run` until /readyz.

    python -m bench.image cog-adapt --output docs/results/image.json

Cold: an empty volume, and no file of the image in the page cache where this process may drop it.
Warm: the same volume again, whose self-test has passed before. Docker's own command is used.
"""

import argparse
import contextlib
import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from bench.storm.servers import free_port, is_ready

RUN = ("run", "--detach", "--read-only", "--tmpfs", "/tmp", "--env", "DEVICE=cpu")
"""The start of a container as the documents say it, on a CPU."""

_CACHE = Path("/proc/sys/vm/drop_caches")
_SECONDS = 300.0
_ARGUMENTS = re.compile(r"RUN \|\d+ (?:\S+=\S* )*/bin/sh -c ")  # of the build, such as an index


def docker(*arguments: str) -> str:
    """Run Docker's command, and return what it writes.

    Raises:
        SystemExit: it is not here, or it failed; the message is its own.
    """
    try:
        done = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise SystemExit("docker is not on the PATH. Install Docker, or add its folder.") from None
    if done.returncode:
        raise SystemExit(f"docker {arguments[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


def layers(image: str) -> list[dict[str, Any]]:
    """Return the layers that have bytes, the base's first."""
    form = "{{.Size}}\t{{.CreatedBy}}"
    text = docker("history", "--human=false", "--no-trunc", "--format", form, image)
    found = re.findall(r"^(\d+)(?:\t(.*))?$", text, re.MULTILINE)
    return [
        {
            "bytes": int(size),
            "made by": _ARGUMENTS.sub("RUN ", " ".join(by.split()))[:120] or "base",
        }
        for size, by in reversed(found)
        if int(size)
    ]


def seconds_until_ready(image: str, volume: str) -> float:
    """Start a container, wait until it is ready, and remove it."""
    port = free_port()
    began = time.monotonic()
    publish = ("--publish", f"127.0.0.1:{port}:5000", "--volume", f"{volume}:/data")
    container = docker(*RUN, *publish, image)
    with _removed("rm", container):
        wait_until_ready(f"http://127.0.0.1:{port}", container)
        return time.monotonic() - began


def wait_until_ready(url: str, container: str) -> None:
    """Wait for a server; end this process with its log if it does not come."""
    deadline = time.monotonic() + _SECONDS
    while not is_ready(url):
        if time.monotonic() > deadline:
            raise SystemExit(docker("logs", "--tail", "30", container))
        time.sleep(0.02)


def started(image: str, rounds: int) -> dict[str, list[float]]:
    """Return the seconds of cold and of warm starts, in turns."""
    found: dict[str, list[float]] = {"cold": [], "warm": []}
    for number in range(rounds):
        volume = f"bench-image-{os.getpid()}-{number}"
        with contextlib.suppress(OSError):
            os.sync()
            _CACHE.write_text("3")
        with _removed("volume", "rm", volume):
            cold, warm = (round(seconds_until_ready(image, volume), 2) for _ in found)
        found["cold"].append(cold)
        found["warm"].append(warm)
    return found


@contextlib.contextmanager
def _removed(*command: str) -> Iterator[None]:
    *words, name = command
    try:
        yield
    finally:
        docker(*words, "--force", name)


def main() -> None:
    """Measure, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("image")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    parts = layers(asked.image)
    seconds = started(asked.image, asked.rounds)
    found = {
        "bytes": sum(each["bytes"] for each in parts),
        "layers": parts,
        "seconds until ready": seconds,
        "medians": {name: median(values) for name, values in seconds.items()},
    }
    text = json.dumps(found, indent=1)
    print(text)
    if asked.output:
        asked.output.write_text(f"{text}\n")


if __name__ == "__main__":
    main()

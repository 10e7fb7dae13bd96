"""Runs a benchmark of this folder where Ray is, in a network namespace with loopback alone.

Such as `python -m bench.ray_serve rivals --output docs/results/ray-rivals.json`.
"""

import os
import sys

from bench.ray_serve.environment import leave_networks, python_beside
from bench.serving_servers import REPOSITORY

BENCHMARKS = ("rivals", "cold_start")


def main() -> None:
    """Leave all networks, and become the benchmark."""
    if len(sys.argv) < 2 or sys.argv[1] not in BENCHMARKS:
        sys.exit(f"name one of {', '.join(BENCHMARKS)}, and then its arguments, such as --quick")
    python = python_beside()
    try:
        leave_networks()
    except OSError as error:
        sys.exit(f"no network namespace can be made here, and Ray would listen outside: {error}")
    os.chdir(REPOSITORY)
    os.execv(python, [str(python), "-m", f"bench.ray_serve.{sys.argv[1]}", *sys.argv[2:]])


if __name__ == "__main__":
    main()

"""Runs the tests of `deploy/` where Ray is: in an environment and a network of their own.

    python -m tests.cog_adapt.deploy.ray [--output docs/results/ray.json] [arguments of pytest]

The environment, `.venv-ray`, has Ray, and sees this one's packages, none of which is changed. The
network has loopback alone; where that cannot be, Ray's tests are skipped.
"""

import argparse
import os
import sys
from pathlib import Path

from bench.ray_serve.environment import leave_networks, python_beside
from tests.cog_adapt.deploy.ray.figures import VARIABLE
from tests.cog_adapt.forks import REPOSITORY

TESTS = Path("tests/cog_adapt/deploy")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, help="write the figures here, and a page beside")
    chosen, rest = parser.parse_known_args()
    python = python_beside()
    if chosen.output:
        os.environ[VARIABLE] = str(chosen.output.resolve())
    try:
        leave_networks()
    except OSError as error:
        sys.stderr.write(f"no network namespace can be made here: {error}\n")
    os.chdir(REPOSITORY)
    os.execv(python, [str(python), "-m", "pytest", "-p", "no:cacheprovider", str(TESTS), *rest])


if __name__ == "__main__":
    main()

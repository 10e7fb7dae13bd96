"""Runs the tests of `deploy/` where Ray is: in an environment and a network of their own.

    python -m tests.cog_adapt.deploy.ray [--output docs/results/ray.json] [arguments of pytest]

The environment, `.venv-ray`, has Ray and Kubernetes' schemas, and sees this one's packages, none of
which is changed. The network has loopback alone; where that cannot be, Ray's tests are skipped.
"""

import argparse
import os
import subprocess
import sys
import sysconfig
import tempfile
import venv
from importlib.metadata import distributions
from pathlib import Path

from tests.cog_adapt.contract.serving import REPOSITORY
from tests.cog_adapt.deploy.ray.figures import VARIABLE
from tests.cog_adapt.deploy.ray.namespace import leave_networks

ENVIRONMENT = REPOSITORY / ".venv-ray"
TESTS = Path("tests/cog_adapt/deploy")
REQUIREMENTS = (Path("deploy/ray/requirements.txt"), TESTS / "requirements.txt")


def python_beside() -> Path:
    """The Python of an environment with Ray, made if it is not there."""
    python = ENVIRONMENT / "bin" / "python"
    if not python.exists():
        venv.create(ENVIRONMENT, with_pip=True)
    purelib = sysconfig.get_path("purelib", vars={"base": str(ENVIRONMENT)})
    Path(purelib, "beside.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pins = {f"{each.name}=={each.version}" for each in distributions()}
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as constraints:
        constraints.write("\n".join(sorted(pins)))
        constraints.flush()
        wanted = [word for path in REQUIREMENTS for word in ("-r", str(path))]
        quiet = ("--quiet", "--disable-pip-version-check", "--root-user-action", "ignore")
        command = [str(python), "-m", "pip", "install", *quiet, "-c", constraints.name, *wanted]
        subprocess.run(command, check=True, cwd=REPOSITORY)
    return python


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

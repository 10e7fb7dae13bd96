"""Runs every proof that needs a CUDA device, and writes the results.

    python -m bench.gpu --output docs/results/gpu.json

The GPU tests with MiniLM on each device, all tests of the runner with the device `cuda`, and the
cost of a step. On the stand-in (`python -m tests.standin bench.gpu`) the file says that nothing
was tested on a GPU.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import torch

from bench.gpu.steps import PRECISIONS, cost_of
from bench.report import environment
from gradient_check.phases.precision import Precision

ROOT = Path(__file__).parents[2]
RUNNER = "tests/cog_adapt/runner"
SUITES: Mapping[str, Sequence[str]] = {
    "gpu tests": ("-m", "gpu", RUNNER, "tests/cog_adapt/bench/test_gpu.py"),
    "runner tests with DEVICE=cuda": ("-m", "not gpu", RUNNER),
}
_SECONDS = 3600
_STAND_IN = "stand-in"  # how the name of a device begins that is none


def device_facts() -> dict[str, Any]:
    """Return the facts about the device."""
    properties = torch.cuda.get_device_properties(0)
    name = torch.cuda.get_device_name(0)
    is_stand_in = name.startswith(_STAND_IN)
    return {
        "name": name,
        "kind": "stand-in: nothing here was tested on a GPU" if is_stand_in else "card",
        "count": torch.cuda.device_count(),
        "capability": f"{properties.major}.{properties.minor}",
        "memory_bytes": properties.total_memory,
        "cuda": torch.version.cuda,
    }


def tested(arguments: Sequence[str], is_stand_in: bool) -> dict[str, Any]:
    """Run tests in a process of their own, because a device-side assert ends its process."""
    plugin = ("-p", "tests.standin.plugin") if is_stand_in else ()
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "tests.xml"
        command = [sys.executable, "-m", "pytest", *plugin, *arguments, "-q", f"--junitxml={found}"]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=dict(os.environ) | {"TEST_DEVICE": "cuda"},
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        counts = counted(found.read_text()) if found.exists() else {}
    return {"command": " ".join(["pytest", *arguments]), "exit_code": done.returncode, **counts}


def counted(xml: str) -> dict[str, Any]:
    """Return how many tests passed, failed and were skipped, and the names of those that failed."""
    outcomes: dict[str, list[str]] = {"passed": [], "failed": [], "skipped": []}
    for case in ElementTree.fromstring(xml).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        tags = {child.tag for child in case}
        failed = bool(tags & {"failure", "error"})
        outcome = "failed" if failed else "skipped" if "skipped" in tags else "passed"
        outcomes[outcome].append(name)
    counts: dict[str, Any] = {outcome: len(names) for outcome, names in outcomes.items()}
    return counts | {"failures": outcomes["failed"]}


def measured(steps: int, is_stand_in: bool) -> list[dict[str, Any]]:
    """Measure a step in each precision on the last device."""
    from task import TextClassification  # a task of one's own may take its place

    device = f"cuda:{torch.cuda.device_count() - 1}"
    task = TextClassification()
    return [cost_of(task, device, each, steps, is_stand_in) for each in PRECISIONS]


def main() -> int:
    """Run all proofs on the CUDA device, and write them as JSON; fail without a device."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--only-steps", action="store_true", help="run no tests")
    chosen = parser.parse_args()
    if not torch.cuda.is_available():
        print("No CUDA device answers here, so nothing was run and nothing written.")
        return 1
    facts = device_facts()
    is_stand_in = facts["name"].startswith(_STAND_IN)
    found: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "device": facts,
        "environment": environment(Precision(torch.device("cuda", 0))),
        "steps": measured(chosen.steps, is_stand_in),
        "tests": {},
    }
    if not chosen.only_steps:
        found["tests"] = {name: tested(each, is_stand_in) for name, each in SUITES.items()}
    print(json.dumps(found, indent=2))
    if chosen.output:
        chosen.output.write_text(json.dumps(found, indent=2) + "\n")
    return max((each["exit_code"] for each in found["tests"].values()), default=0)


if __name__ == "__main__":
    sys.exit(main())

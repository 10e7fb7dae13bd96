"""The gradient self-test of a task: the gate that a process passes before it serves.

    python -m runner.selftest [FILE:CLASS] [--json FILE]

It joins the base with what an adaptation would start from (LoRA pairs, a head), and has
`check_gradients` prove that every parameter gets its gradient, in each precision. Then it takes
the same gradient where others may call from: another thread, an ambient inference mode, and with
checkpointing on. The model is left bit for bit as it was.
"""

import argparse
import importlib.util
import json
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console, ConsoleOptions, RenderResult
from torch import Tensor

from runner.adaptation import Start, adamw, encode_examples, example_loss
from runner.checkpointing import blocks, recompute_blocks
from runner.config import Precision, Recipe, RunnerSettings
from runner.errors import ConfigError, GradientFlowError, RunnerError
from runner.gradient_step import GradientStep
from runner.gradients import Check, Finding, GradientReport, check_gradients
from runner.gradients.display import render
from runner.loaded_model import LoadedModel
from runner.methods import lora_layers
from runner.modes import under_inference_mode
from runner.replicas import modules_in_training, serving_replica, training_replica
from runner.tasks.task import Task
from runner.tasks.text_classification import TextClassification

Gradient = dict[str, Tensor]

# Measured on MiniLM: 0 on the CPU in all three; the room is for kernels that add in any order.
_TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 3e-2, torch.float16: 3e-2}
_SEED = 0


@dataclass(frozen=True)
class SelfTestReport:
    """The outcome of a self-test: one report for each precision, and one for the surroundings."""

    reports: tuple[GradientReport, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing failed; warnings do not count."""
        return all(report.passed for report in self.reports)

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of all findings, each once."""
        return tuple(dict.fromkeys(code for report in self.reports for code in report.codes))

    def to_json(self) -> dict[str, Any]:
        """Plain dicts, lists, strings and numbers."""
        return {"passed": self.passed, "reports": [report.to_json() for report in self.reports]}

    def raise_if_failed(self) -> None:
        """Raise GradientFlowError, whose message is this report, unless the test passed."""
        if not self.passed:
            raise GradientFlowError(str(self))

    def __str__(self) -> str:
        return "\n".join(str(report) for report in self.reports)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from (render(report) for report in self.reports)


def run_self_test(model: LoadedModel) -> SelfTestReport:
    """Test a loaded model; call it on the thread that owns the model."""
    start = model.start(model.task.probe(), _recipe(model))
    precisions = dict.fromkeys((model.precision, _exact(model)))
    reports = [_check(model, start, precision) for precision in precisions]
    if all(report.passed for report in reports):
        reports.append(_check_surroundings(start))
    return SelfTestReport(tuple(reports))


def _recipe(model: LoadedModel) -> Recipe:
    """LoRA joins its pairs to the base; every other parameter is trained beside them."""
    return Recipe(method="lora" if lora_layers(model.template, model.task) else "all")


def _exact(model: LoadedModel) -> Precision:
    """float32 checks the graph's logic exactly, where the weights allow it."""
    halves = any(p.dtype != torch.float32 for p in model.template.parameters())
    return model.precision if halves else Precision(model.precision.device)


def _check(model: LoadedModel, start: Start, precision: Precision) -> GradientReport:
    return check_gradients(
        serving_replica(model.template, start.tensors),
        _probe(start),
        example_loss(model.task),
        precision=precision,
        serve_mode=model.serve_mode,
        make_optimizer=adamw(start.recipe, start.learning_rate),
        learning_rate=start.learning_rate,
        unused=(model.task.unused,),
    )


def _probe(start: Start) -> tuple[dict[str, Tensor], Tensor]:
    return encode_examples(start.task, start.examples, start.labels, start.precision.device)


def _check_surroundings(start: Start) -> GradientReport:
    """The same gradient, wherever the phase is called from."""
    began = time.perf_counter()
    step = _step(start)
    expected = _gradient(step, start)
    ways: dict[str, Callable[[], Gradient]] = {
        "another-thread": lambda: _on_another_thread(_gradient, step, start),
        "ambient-inference": lambda: under_inference_mode(_gradient, step, start),
    }
    if blocks(step.replica):
        ways["checkpointing"] = lambda: _gradient(_step(start, recomputing=True), start)
    checks, findings = [], []
    for name, way in ways.items():
        check, finding = _compare(name, way, expected, start.precision)
        checks.append(check)
        findings += finding
    return GradientReport(
        tuple(findings),
        tuple(checks),
        {},
        str(start.precision),
        time.perf_counter() - began,
    )


def _compare(
    name: str, way: Callable[[], Gradient], expected: Gradient, precision: Precision
) -> tuple[Check, list[Finding]]:
    began = time.perf_counter()
    try:
        error = _distance(way(), expected)
    except (RunnerError, RuntimeError) as failure:
        finding = Finding(name, "FAIL", f"no gradient could be taken: {failure}")
        return Check(name, "failed", time.perf_counter() - began), [finding]
    limit = _TOLERANCE[precision.compute]
    check = Check(
        name,
        "passed" if error <= limit else "failed",
        time.perf_counter() - began,
        {"relative error": error},
    )
    if error <= limit:
        return check, []
    message = (
        f"the gradient differs by {error:.1e} of its norm from the one taken plainly; the limit is "
        f"{limit:.0e}. Let no module keep tensors, flags or random state between calls."
    )
    return check, [Finding(name, "FAIL", message)]


def _step(start: Start, *, recomputing: bool = False) -> GradientStep:
    replica = training_replica(start.template, start.tensors)
    training = modules_in_training(replica)
    if recomputing:
        recompute_blocks(replica)
    make = adamw(start.recipe, start.learning_rate)
    return GradientStep(replica, example_loss(start.task), make, start.precision, training)


def _gradient(step: GradientStep, start: Start) -> Gradient:
    step.gradients(_probe(start), _SEED)
    own = step.replica.named_parameters()
    return {name: p.grad.clone() for name, p in own if p.grad is not None}


def _distance(gradient: Gradient, expected: Gradient) -> float:
    if gradient.keys() != expected.keys():
        return float("inf")
    squares = sum(float((gradient[n] - g).double().square().sum()) for n, g in expected.items())
    whole = sum(float(g.double().square().sum()) for g in expected.values())
    return float((squares / whole) ** 0.5) if whole else 0.0


def _on_another_thread(
    function: Callable[[GradientStep, Start], Gradient], step: GradientStep, start: Start
) -> Gradient:
    results: list[Gradient | BaseException] = []

    def call() -> None:
        try:
            results.append(function(step, start))
        except (RunnerError, RuntimeError) as error:
            results.append(error)

    thread = threading.Thread(target=call, name="self-test")
    thread.start()
    thread.join()
    if isinstance(results[0], BaseException):
        raise results[0]
    return results[0]


def load_task(reference: str) -> Task:
    """The task that FILE:CLASS names.

    Raises:
        ConfigError: there is no such file or class, or it is no task.
    """
    path, _, name = reference.rpartition(":")
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    if not Path(path).is_file() or spec is None or spec.loader is None:
        raise ConfigError(f"{reference!r} names no Python file. Write FILE.py:CLASS.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    kind = getattr(module, name, None)
    if not isinstance(kind, type) or not issubclass(kind, Task):
        raise ConfigError(
            f"{name!r} in {path} is no subclass of runner.tasks.task.Task. Make it one."
        )
    return kind()


def main(arguments: Sequence[str] | None = None) -> int:
    """Test a task on the device of the settings; 0 if it passed, 1 if not."""
    parser = argparse.ArgumentParser(prog="python -m runner.selftest", description=main.__doc__)
    parser.add_argument("task", nargs="?", help="FILE:CLASS; by default text classification")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report as JSON too")
    chosen = parser.parse_args(arguments)
    console = Console()
    try:
        task = load_task(chosen.task) if chosen.task else TextClassification()
        report = run_self_test(LoadedModel(task, RunnerSettings.from_environment()))
    except RunnerError as error:
        console.print(f"[red]{type(error).__name__}[/]: {error}", highlight=False)
        return 1
    console.print(report)
    if chosen.json:
        chosen.json.write_text(json.dumps(report.to_json(), indent=2) + "\n")
    return 0 if report.passed else 1


if __name__ == "__main__":
    sys.exit(main())

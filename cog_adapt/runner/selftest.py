"""The gradient self-test of a task: the gate that a process passes before it serves.

    cog-adapt selftest [FILE:CLASS] [--json FILE]

It joins the base with what an adaptation would start from (LoRA pairs, a head), and has
`check_gradients` prove that every parameter gets its gradient, in each precision. Then it takes
the same gradient where others may call from: another thread, an ambient inference mode, and with
checkpointing on. The model is left bit for bit as it was.
"""

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console, ConsoleOptions, RenderResult

from cog_adapt.runner.calling_contexts import check_calling_contexts, probe_of
from cog_adapt.runner.config import Precision, Recipe, RunnerSettings
from cog_adapt.runner.errors import GradientFlowError, RunnerError
from cog_adapt.runner.gradients import GradientReport, check_gradients
from cog_adapt.runner.gradients.display import render
from cog_adapt.runner.loaded_model import LoadedModel
from cog_adapt.runner.methods import automatic_learning_rate, lora_layers
from cog_adapt.runner.modes import run_setup
from cog_adapt.runner.replicas import serving_replica
from cog_adapt.runner.start import Start, adamw, example_loss
from cog_adapt.runner.task import Task
from cog_adapt.runner.task_file import load_model, load_task
from cog_adapt.runner.task_promises import check_promises

Entry = Callable[..., object]
_NEEDED = ("probe", "encode", "start")  # without these no gradient can be taken


@dataclass(frozen=True)
class SelfTestReport:
    """The outcome of a self-test: a report for each precision, and one for calling contexts."""

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


def run_self_test(model: LoadedModel, entry: Entry | None = None) -> SelfTestReport:
    """Test a loaded model; call it on the thread that owns the model.

    Args:
        model: left bit for bit as it was.
        entry: the door's function, checked for mode decorators that do nothing on `async`.
    """
    return run_setup(_run, model, entry)


def _run(model: LoadedModel, entry: Entry | None) -> SelfTestReport:
    promises = check_promises(model)
    if any(check.name in _NEEDED and check.status != "passed" for check in promises.checks):
        return SelfTestReport((promises,))
    start = model.start(model.task.probe(), _recipe(model))
    precisions = dict.fromkeys((model.precision, _exact(model)))
    reports = [_check(model, start, precision, entry) for precision in precisions]
    if all(report.passed for report in reports):
        reports.append(check_calling_contexts(start))
    return SelfTestReport((promises, *reports))


def _recipe(model: LoadedModel) -> Recipe:
    """LoRA joins its pairs to the base; every other parameter is trained beside them."""
    return Recipe(method="lora" if lora_layers(model.template, model.task) else "all")


def _exact(model: LoadedModel) -> Precision:
    """float32 checks the graph's logic exactly, where the weights allow it."""
    halves = any(p.dtype != torch.float32 for p in model.template.parameters())
    return model.precision if halves else Precision(model.precision.device)


def _check(
    model: LoadedModel, start: Start, precision: Precision, entry: Entry | None
) -> GradientReport:
    rate = automatic_learning_rate(model.template, model.task, "all")
    return check_gradients(
        serving_replica(model.template, start.tensors),
        probe_of(start),
        example_loss(model.task),
        precision=precision,
        trainable=".*",
        serve_mode=model.serve_mode,
        make_optimizer=adamw(start.recipe, rate),
        learning_rate=rate,
        unused=() if model.task.unused == Task.unused else (model.task.unused,),
        stop_gradients=model.task.stop_gradients,
        entry=entry,
    )


def _environment(report: SelfTestReport) -> dict[str, str]:
    on_cuda = report.reports[0].precision.startswith("cuda")
    return {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "device": torch.cuda.get_device_name() if on_cuda else platform.machine(),
    }


def main(
    arguments: Sequence[str] | None = None, program: str = "python -m cog_adapt.runner.selftest"
) -> int:
    """Test a task on the device of the settings; 0 if it passed, 1 if not."""
    parser = argparse.ArgumentParser(prog=program, description=main.__doc__)
    parser.add_argument(
        "task", nargs="?", default="task.py", help="FILE:CLASS; by default the task in task.py"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report as JSON too")
    chosen = parser.parse_args(arguments)
    console = Console()
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # the task's file may import its neighbours
    try:
        task = load_task(chosen.task)
        report = run_self_test(load_model(task, RunnerSettings.from_environment()))
    except RunnerError as error:
        console.print(f"[red]{type(error).__name__}[/]: {error}", highlight=False)
        return 1
    console.print(report)
    if chosen.json:
        values = {"environment": _environment(report), **report.to_json()}
        chosen.json.write_text(json.dumps(values, indent=2) + "\n")
    return 0 if report.passed else 1


if __name__ == "__main__":
    sys.exit(main())

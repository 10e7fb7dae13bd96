"""`cog-adapt selftest [FILE:CLASS]`: the gradient self-test of a task, as a screen.

The screen is read from its end: the last line is the verdict, above it is what the verdict does not
cover. `-v` adds the tables of all checks and of all gradients.
"""

import argparse
import os
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch
from rich.console import Console, Group
from rich.markup import escape
from rich.text import Text

from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.errors import RunnerError
from cog_adapt.runner.selftest.report import SelfTestReport, check_writable, write_json
from cog_adapt.runner.selftest.run import run_again
from cog_adapt.runner.selftest.task_file import load_model, load_task
from gradient_check import Finding

_ORDER = ("NOTE", "WARN", "FAIL")
_COLOURS = {"NOTE": "cyan", "WARN": "yellow", "FAIL": "red"}
_MOST_NAMES = 4


def main(arguments: Sequence[str]) -> int:
    """Test a task on the device of the settings; 0 if it passed, 1 if not."""
    parser = argparse.ArgumentParser(prog="cog-adapt selftest", description=main.__doc__)
    parser.add_argument(
        "task", nargs="?", default="task.py", help="FILE:CLASS; by default the task in task.py"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report as JSON too")
    parser.add_argument(
        "--strict", action="store_true", help="fail on checks left out, and on unverified"
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="show each check and each layer's gradient"
    )
    chosen = parser.parse_args(arguments)
    console = Console()
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # the task's file may import its neighbours
    try:
        report = _tested(chosen, console)
    except RunnerError as error:
        console.print(f"[red]{type(error).__name__}[/]: {escape(str(error))}", highlight=False)
        return 1
    if chosen.verbose:
        console.print(report)
    console.print(screen(report), highlight=False)
    return 0 if report.passed else 1


def _tested(chosen: argparse.Namespace, console: Console) -> SelfTestReport:
    if chosen.json:
        check_writable(chosen.json)
    task = load_task(chosen.task)
    settings = RunnerSettings.from_environment()
    if chosen.strict:
        settings = settings.model_copy(update={"self_test_strict": True})
    model = load_model(task, settings)
    name, place = escape(type(task).__name__), model.base.precision
    console.print(f"self-test of {name} on {place}: seconds, or minutes for a large model")
    report = run_again(model, settings)
    if chosen.json:
        found = _environment(model.base.precision.device)
        write_json(chosen.json, {"environment": found, **report.to_json()})
    return report


def _environment(device: torch.device) -> dict[str, str]:
    on_cuda = device.type == "cuda"
    return {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "device": torch.cuda.get_device_name(device) if on_cuda else platform.machine(),
    }


def screen(report: SelfTestReport) -> Group:
    """Return the findings, the gaps of the proof, and last the verdict."""
    return Group(*_findings(report), *_gaps(report), _verdict(report))


def _findings(report: SelfTestReport) -> Iterator[Text]:
    """Yield each finding once, though several precisions may have it; the worst last."""
    found = dict.fromkeys(
        finding for part in report.reports for finding in map(_hashable, part.findings)
    )
    for level, said in sorted(found, key=lambda each: _ORDER.index(each[0])):
        yield Text.assemble((level, f"bold {_COLOURS[level]}"), said)


def _hashable(finding: Finding) -> tuple[str, str]:
    return finding.level, str(finding).removeprefix(finding.level)


def _gaps(report: SelfTestReport) -> Iterator[Text]:
    unverified = dict.fromkeys(name for part in report.reports for name in part.unverified)
    yield Text(f"unverified  {_some(unverified)}")
    left_out = {name: why for part in report.reports for name, why in part.left_out.items()}
    if not left_out:
        yield Text("left out    none")
    for name, why in left_out.items():
        yield Text(f"left out    {name}: {why}")


def _some(names: Mapping[str, None]) -> str:
    """Return the number of some parameters, and the first few names."""
    if not names:
        return "none"
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"{len(names)}: {', '.join([*names][:_MOST_NAMES])}{more}"


def _verdict(report: SelfTestReport) -> Text:
    checks = [check for part in report.reports for check in part.checks]
    ran = sum(check.status != "skipped" for check in checks)
    tensors = {name for part in report.reports for name in part.gradient_norms}
    seconds = sum(part.seconds for part in report.reports)
    facts = f"{len(tensors)} trained tensors, {ran} of {len(checks)} checks run, {seconds:.1f} s"
    if report.passed:
        return Text(f"The self-test passed: {facts}.", style="bold green")
    codes = [f.code for part in report.reports for f in part.findings if f.level == "FAIL"]
    named = ", ".join(dict.fromkeys(codes))
    return Text(f"The self-test failed ({named}): {facts}.", style="bold red")

"""The gradient self-test of a task, which a process must pass before it serves.

It joins the base with the start of an adaptation (LoRA pairs, a head), and lets `check_gradients`
prove that every parameter gets its gradient, in each precision. Then it takes the same gradient in
other calling contexts: another thread, an ambient inference mode, and with checkpointing on. The
model is left bit for bit as it was.

A pass is stored beside the weights. If one with the same conditions exists, a process's first test
is the quick one (`quick_test`).
"""

import logging
import time
from collections.abc import Callable
from dataclasses import replace

import torch

from cog_adapt.runner.adaptation.methods import automatic_learning_rate, lora_layers
from cog_adapt.runner.adaptation.start import Start, adamw, example_loss
from cog_adapt.runner.config import OFF, QUICK, Recipe, RunnerSettings
from cog_adapt.runner.model.loaded_model import LoadedModel
from cog_adapt.runner.selftest.calling_contexts import check_calling_contexts, probe_of
from cog_adapt.runner.selftest.conditions import conditions_of
from cog_adapt.runner.selftest.kept_passes import KeptPass, KeptPasses
from cog_adapt.runner.selftest.quick_test import check_quickly
from cog_adapt.runner.selftest.report import IS_OFF, SelfTestReport
from cog_adapt.runner.selftest.task_promises import check_promises
from cog_adapt.runner.task.task import Task
from gradient_check import Finding, GradientReport, check_gradients
from gradient_check.phases.float32 import exact_float32
from gradient_check.phases.freed_memory import give_back, give_back_freed
from gradient_check.phases.modes import run_setup
from gradient_check.phases.precision import Precision
from gradient_check.phases.replicas import copies_alive, serving_replica
from gradient_check.phases.room import has_room

Entry = Callable[..., object]
# without these methods no gradient can be computed
_NEEDED = ("probe", "encode", "start", "prepare")
_MOST_TIMES = 2.2  # times the weights in float32: memory of the whole test on top of the base
_log = logging.getLogger(__name__)
_progress = logging.getLogger("cog_adapt.setup")  # a worker prints its lines


def run_at_start(
    model: LoadedModel, settings: RunnerSettings, entry: Entry | None = None
) -> SelfTestReport:
    """Run the first self-test of a process, at the level that the settings name."""
    _progress.info("self-test: do gradients reach every parameter?")
    began = time.perf_counter()
    report = _run_first(model, settings, entry)
    seconds = time.perf_counter() - began
    _progress.info("self-test (%s) %s in %.1f s", report.level, report.outcome, seconds)
    return report


def _run_first(model: LoadedModel, settings: RunnerSettings, entry: Entry | None) -> SelfTestReport:
    if settings.self_test == OFF:
        _log.warning(IS_OFF)
        return SelfTestReport((), OFF)
    passes, conditions = KeptPasses(settings.weights_dir), _conditions(model, settings)
    kept = passes.find(conditions) if conditions and settings.self_test == QUICK else None
    if kept is None:
        report = _run_and_keep(model, settings=settings, conditions=conditions, entry=entry)
        return _with_compiled_step(model, report, entry)
    quick = check_quickly(model, entry)
    if not quick.passed:
        passes.drop(conditions)  # the next start runs the whole test, and names the line
    return SelfTestReport((replace(quick, findings=(*quick.findings, _of_kept(kept))),), QUICK)


def run_again(
    model: LoadedModel, settings: RunnerSettings, entry: Entry | None = None
) -> SelfTestReport:
    """Run the whole self-test on request, and store its pass."""
    return _run_and_keep(
        model, settings=settings, conditions=_conditions(model, settings), entry=entry
    )


def _with_compiled_step(
    model: LoadedModel, report: SelfTestReport, entry: Entry | None
) -> SelfTestReport:
    """Take a step with compiled blocks, which also warms them up; the test before compiled none."""
    if not model.compiles or not report.passed:
        return report
    return replace(report, reports=(*report.reports, check_quickly(model, entry)))


def _run_and_keep(
    model: LoadedModel, settings: RunnerSettings, conditions: dict[str, str], entry: Entry | None
) -> SelfTestReport:
    report = run_self_test(model, entry)
    report = report.strictly() if settings.self_test_strict else report
    if report.passed and conditions and not model.damage:
        KeptPasses(settings.weights_dir).keep(conditions, KeptPass(report.codes))
    return report


def _conditions(model: LoadedModel, settings: RunnerSettings) -> dict[str, str]:
    """Return the conditions of a pass; empty if they cannot be read, so that no pass is stored."""
    try:
        found = run_setup(conditions_of, model)
        return found | ({"strict": "1"} if settings.self_test_strict else {})
    except OSError as error:
        _log.warning("no pass of the self-test is kept: %s. Let the code be readable.", error)
        return {}


def _of_kept(kept: KeptPass) -> Finding:
    found = f"; it found {', '.join(kept.codes)}" if kept.codes else ""
    message = (
        f"the whole self-test has passed before under the same conditions{found}. SELF_TEST=full "
        "runs it again."
    )
    return Finding("kept-pass", "NOTE", message)


def run_self_test(model: LoadedModel, entry: Entry | None = None) -> SelfTestReport:
    """Run the whole self-test of a loaded model, on the thread that owns it.

    Args:
        model: left bit for bit as it was.
        entry: the predictor's function, checked for mode decorators that have no effect on `async`.
    """
    before = copies_alive()
    try:
        with exact_float32():  # rounding as in TF32 would hide small gradients
            return run_setup(_run, model, entry)
    finally:
        is_clean = copies_alive() <= before
        (give_back_freed if is_clean else give_back)(model.base.precision.device)


def _run(model: LoadedModel, entry: Entry | None) -> SelfTestReport:
    promises = check_promises(model)
    if any(check.name in _NEEDED and check.status != "passed" for check in promises.checks):
        return SelfTestReport((promises,))
    give_back_freed(model.base.precision.device)  # the memory of the promises' copies
    start = model.start(model.task.probe(), _recipe(model))
    precisions = dict.fromkeys((model.base.precision, _exact(model)))
    reports = [
        _check(model, start=start, precision=precision, entry=entry) for precision in precisions
    ]
    if all(report.passed for report in reports):
        reports.append(check_calling_contexts(start))
    return SelfTestReport((promises, *reports))


def _recipe(model: LoadedModel) -> Recipe:
    """Return a recipe in which LoRA adds its pairs and every other parameter is trained too."""
    return Recipe(method="lora" if lora_layers(model.base.template, model.task) else "all")


def _exact(model: LoadedModel) -> Precision:
    """Return float32, which checks the graph's logic exactly, if the weights allow it."""
    halves = any(p.dtype != torch.float32 for p in model.base.template.parameters())
    return model.base.precision if halves else Precision(model.base.precision.device)


def _check(
    model: LoadedModel, start: Start, precision: Precision, entry: Entry | None
) -> GradientReport:
    rate = automatic_learning_rate(model.base.template, model.task, "all")
    is_whole = _fits(model)
    report = check_gradients(
        serving_replica(model.base.template, start.trained.tensors),
        probe_of(start),
        example_loss(model.task),
        precision=precision,
        trainable=(lambda name, _: is_whole or name in start.trained.tensors),
        serve_mode=model.serve_mode,
        make_optimizer=adamw(start.training.recipe, rate),
        learning_rate=rate,
        unused=() if model.task.unused == Task.unused else (model.task.unused,),
        stop_gradients=model.task.stop_gradients,
        reversed_gradients=model.task.reversed_gradients,
        surrogate_gradients=model.task.surrogate_gradients,
        random_loss=model.task.random_loss,
        entry=entry,
    )
    return report if is_whole else replace(report, findings=(*report.findings, _of_part(start)))


def _fits(model: LoadedModel) -> bool:
    """Return whether memory allows training all of the base in float32, as an adaptation would."""
    entries = sum(p.numel() for p in model.base.template.parameters())
    return has_room(model.base.precision.device, int(_MOST_TIMES * 4 * entries))


def _of_part(start: Start) -> Finding:
    method = start.training.recipe.method
    message = (
        f"only the {len(start.trained.tensors)} tensors of method {method!r} were tested: to "
        "train the whole base too takes more memory than is free here."
    )
    return Finding("method-only", "NOTE", message)

"""`check_gradients`: runs the whole self-test of one module, step by step."""

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from gradient_check.arguments import (
    NO_FACTORS,
    Patterns,
    check_factors,
    check_loss,
    check_module,
    check_options,
    check_probe,
    check_values,
    checked_maker,
    checked_patterns,
    chosen_precision,
    warn_of_misspelt,
)
from gradient_check.checks.arrivals import GradientArrivals
from gradient_check.checks.audit import audit_module, report_uncopied
from gradient_check.checks.concurrency import ConcurrencyCheck
from gradient_check.checks.entry import audit_entry
from gradient_check.checks.flow import GradientFlow
from gradient_check.checks.frozen import FrozenParameters
from gradient_check.checks.magnitudes import judge_magnitudes
from gradient_check.checks.operation import Operation
from gradient_check.checks.repeatability import Repeatability
from gradient_check.checks.rounding import Rounding
from gradient_check.checks.slopes import GradientSlopes
from gradient_check.checks.starting_point import StartingPoint
from gradient_check.checks.traces import LastingEffects
from gradient_check.checks.update import Update
from gradient_check.checks.zero_entries import ZeroEntries
from gradient_check.diagnosis.stand_ins import find_stand_ins
from gradient_check.findings.examination import Examination, Numbers, attempted
from gradient_check.findings.report import GradientReport
from gradient_check.instruments import differences
from gradient_check.instruments.declared import DeclaredStops
from gradient_check.instruments.declared_slopes import DeclaredSlopes
from gradient_check.instruments.guard import Guard
from gradient_check.instruments.probe_loss import ProbeLoss
from gradient_check.instruments.selection import Selection, select
from gradient_check.instruments.subject import CheckOptions, Subject
from gradient_check.phases.errors import ConfigError
from gradient_check.phases.gradient_step import MakeOptimizer
from gradient_check.phases.modes import ThreadModes, run_adaptation, run_setup
from gradient_check.phases.precision import Precision, ServeMode

_ORDER = ("FAIL", "WARN", "NOTE")
_STEPS = (
    "inference", "replica", "perturbation", "forward", "repeatability", "backward", "start",
    "magnitudes", "frozen", "serving agrees", "whole gradient", "blocks", "zero entries",
    "optimizer", "concurrency", "release", "base",
)  # fmt: skip


@dataclass(frozen=True)
class Declarations:
    """What the caller declares: parameters without a gradient, and what is meant to be no slope."""

    unused: tuple[str, ...]
    stops: DeclaredStops
    slopes: DeclaredSlopes


def check_gradients(  # noqa: PLR0913 - a module, a probe, a loss; everything else is optional
    module: nn.Module,
    probe: Any,  # noqa: ANN401 - any pytree
    loss: Callable[..., Any],
    *,
    precision: Precision | str | None = None,
    trainable: Selection = None,
    unused: Patterns = (),
    stop_gradients: Patterns = (),
    reversed_gradients: Mapping[str, float] = NO_FACTORS,
    surrogate_gradients: Patterns = (),
    serve_mode: ServeMode = "inference_mode",
    entry: Callable[..., object] | None = None,
    make_optimizer: MakeOptimizer | None = None,
    learning_rate: float = 1e-3,
    checkpointing: bool = False,
    random_loss: bool = False,
    strict: bool = False,
    seed: int = 0,
) -> GradientReport:
    """Prove that every trainable parameter gets the right gradient, or name the line at fault.

    The test runs on a copy. The module is left bit for bit as it was, with its flags, hooks
    and gradients, and so are the random streams and the modes of the thread. The call works
    anywhere, also under `torch.inference_mode()`.

    Args:
        module: the module to be trained; on any device, in train or eval mode.
        probe: a small batch: a tensor, a tuple (positional arguments), a mapping (keyword
            arguments) or any pytree.
        loss: `(module, probe) -> losses`; or `(output) -> losses`, where `output` is what the
            module returns for the probe; or `(output, targets) -> losses`, as PyTorch's own losses
            are, with the probe `(inputs, targets)`. Losses are a scalar or one for each example.
        precision: where and in what dtype forwards run: a Precision, or fp32, bf16 or fp16 on the
            module's device; by default float32, or the dtype of its weights if it has 16 bits.
        trainable: a regex searched in parameter names, or a predicate of name and parameter; by
            default every floating point or complex parameter, also one that the module freezes.
        unused: names, or full-match regexes of names, of parameters that may get no gradient. One
            text is one pattern, here and below.
        stop_gradients: stops that are meant: regexes of whole module paths or parameter names, or
            parts of the line (`file:line: code`), each as a text or as a regex. One that is found
            is a note, one that is not found a warning.
        reversed_gradients: where what passes backward is meant to be the slope times a factor, of
            either sign (gradient reversal), by patterns as above.
        surrogate_gradients: patterns of blocks whose gradient is meant to be no slope (a spike's
            surrogate): it is not compared there, and the rest of the model is.
        serve_mode: the mode that inference runs in.
        entry: a function that Cog or a server calls, checked for mode decorators on `async`.
        make_optimizer: builds the optimizer for the parameters that it is given; by default AdamW.
        learning_rate: the rate of the default optimizer.
        checkpointing: recompute the blocks' activations in backward, as a recipe may ask for.
        random_loss: whether the loss draws noise, so that it differs from seed to seed. Every call
            is made under the noise that a step draws, from one seed; undeclared noise warns.
        strict: whether checks that were left out, and unverified parameters, are failures.
        seed: the seed of the perturbation, of dropout and of the loss's noise.

    Returns:
        The report. A failed test does not raise: call `raise_if_failed` on the report.

    Raises:
        ConfigError: an argument is not what it is taken for.
    """
    check_module(module)
    check_probe(probe)
    check_loss(loss, probe)
    flags = {"checkpointing": checkpointing, "random_loss": random_loss, "strict": strict}
    check_values(learning_rate, seed, **flags)
    unused = checked_patterns("unused", unused)
    stop_gradients = checked_patterns("stop_gradients", stop_gradients)
    surrogate_gradients = checked_patterns("surrogate_gradients", surrogate_gradients)
    check_options(trainable, unused, serve_mode, entry, make_optimizer)
    check_factors(reversed_gradients)
    options = CheckOptions(
        chosen_precision(precision, module),
        serve_mode,
        checked_maker(make_optimizer or _adamw(learning_rate)),
        checkpointing,
        seed,
        thaws=trainable is None,
        random_loss=random_loss,
    )
    watched = ProbeLoss(loss, probe)
    slopes = DeclaredSlopes(reversed_gradients, surrogate_gradients)
    names = filter(None, (*dict(module.named_modules()), *dict(module.named_parameters())))
    allowed = Declarations(unused, DeclaredStops(stop_gradients, names), slopes)
    report = run_setup(_examine, module, probe, watched, options, trainable, allowed, entry)
    return report.strictly() if strict else report


def _examine(  # noqa: PLR0913
    module: nn.Module,
    probe: Any,  # noqa: ANN401
    loss: ProbeLoss,
    options: CheckOptions,
    trainable: Selection,
    allowed: Declarations,
    entry: Callable[..., object] | None,
) -> GradientReport:
    began = time.perf_counter()
    exam = Examination()
    exam.check("modes", lambda: check_modes(exam, entry))
    names = select(module, trainable)
    norms: dict[str, float] = {}
    if exam.check("tensors", lambda: _audit(exam, module, names, allowed.unused)):
        norms = _run(exam, module, probe, loss, names, options, allowed)
    known = {check.name for check in exam.checks}
    for step in _STEPS:
        if step not in known:
            exam.check(step, lambda: None, needs=("a replica",))
    findings = tuple(sorted(exam.findings, key=lambda finding: _ORDER.index(finding.level)))
    seconds = time.perf_counter() - began
    return GradientReport(findings, tuple(exam.checks), norms, str(options.precision), seconds)


def check_modes(exam: Examination, entry: Callable[..., object] | None) -> Numbers:
    """Check that the phases allow gradients on this thread, whatever mode surrounds the call."""
    wanted = ThreadModes(grad=True, inference=False, autocast=False)
    found = run_adaptation(lambda _: ThreadModes.current(), nn.PReLU(), ())
    if found != wanted:
        exam.add("FAIL", "thread-mode", f"the adaptation phase is {found}; it must be {wanted}.")
    for finding in audit_entry(entry) if entry is not None else ():
        exam.keep(finding)
    return {}


def _audit(
    exam: Examination, module: nn.Module, names: list[str], unused: Sequence[str]
) -> Numbers:
    for finding in audit_module(module, names):
        exam.keep(finding)
    warn_of_misspelt(exam, unused, [name for name, _ in module.named_parameters()])
    return {"trained tensors": len(names)}


def _run(  # noqa: PLR0913
    exam: Examination,
    module: nn.Module,
    probe: Any,  # noqa: ANN401
    loss: ProbeLoss,
    names: list[str],
    options: CheckOptions,
    allowed: Declarations,
) -> dict[str, float]:
    guard = Guard(module, options.precision.device)
    try:
        subject = Subject(module, probe, loss, names, options)
    except ConfigError:
        guard.restore({})
        raise
    except Exception as error:  # noqa: BLE001 - copying runs the module's code
        report_uncopied(exam, module, error)
        guard.restore({})
        return {}
    try:
        autocasts = options.precision.autocasts
        limits = differences.SIXTEEN_BIT if autocasts else differences.FLOAT32
        unused = [n for n in names if any(n == u or re.fullmatch(u, n) for u in allowed.unused)]
        flow = GradientFlow(subject, guard, exam, limits, unused)
        flow.declared, flow.slopes = allowed.stops, allowed.slopes
        _take_steps(exam, flow, Operation(subject, guard, exam, limits, flow))
        allowed.slopes.report(exam)
        if "gradients" in exam.grounds and allowed.stops.are_missing:
            paths = flow.diagnosis.names
            attempted(lambda: find_stand_ins(subject, paths, allowed.stops), None)  # small ones
        allowed.stops.report_absent(exam)
        return flow.gradient_norms
    finally:
        guard.restore(dict(subject.base.named_parameters(remove_duplicate=False)))


def _take_steps(exam: Examination, flow: GradientFlow, operation: Operation) -> None:
    slopes, update, traces = GradientSlopes(flow), Update(operation), LastingEffects(operation)
    zeros = ZeroEntries(flow)
    slopes.while_held = zeros.look
    exam.check("inference", operation.serve_first)
    exam.check("replica", operation.compare_replica, needs=("served",))
    exam.check("perturbation", operation.perturb)
    exam.check("forward", flow.run_forward)
    exam.check("repeatability", Repeatability(flow).judge, needs=("loss",))
    exam.check("backward", GradientArrivals(flow).judge_backward, needs=("loss", "repeatable"))
    exam.check("start", StartingPoint(flow).judge, needs=("gradients",))
    exam.check("magnitudes", lambda: judge_magnitudes(flow), needs=("gradients",))
    exam.check("frozen", FrozenParameters(flow).judge, needs=("gradients",))
    exam.check("serving agrees", operation.compare_serving, needs=("served", "loss"))
    exam.check("whole gradient", slopes.judge_whole, needs=("gradients",))
    exam.check("blocks", slopes.judge_blocks, needs=("gradients",))
    if flow.subject.options.precision.autocasts or flow.is_coarse:
        exam.check("rounding", Rounding(flow).judge, needs=("gradients", "finite gradients"))
    exam.check("zero entries", zeros.judge, needs=("gradients",))
    exam.check("optimizer", update.take_step, needs=("gradients", "finite gradients"))
    exam.check("concurrency", ConcurrencyCheck(operation).judge, needs=("served", "stepped"))
    exam.check("release", traces.judge_release, needs=("loss",))
    exam.check("base", traces.judge_base)


def _adamw(learning_rate: float) -> MakeOptimizer:
    def make(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        own = list(parameters)
        fused = all(p.is_floating_point() for p in own)  # no fused kernel takes complex numbers
        return torch.optim.AdamW(own, lr=learning_rate, fused=fused)

    return make

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
from gradient_check.checks.arrivals import judge_arrivals
from gradient_check.checks.audit import judge_module
from gradient_check.checks.base_changes import judge_base
from gradient_check.checks.blocks import judge_blocks
from gradient_check.checks.concurrency import judge_concurrency
from gradient_check.checks.copying import report_uncopied
from gradient_check.checks.flow import GradientFlow
from gradient_check.checks.forward import judge_forward
from gradient_check.checks.frozen import judge_frozen
from gradient_check.checks.inference import judge_inference
from gradient_check.checks.magnitudes import judge_magnitudes
from gradient_check.checks.modes import judge_modes
from gradient_check.checks.operation import Operation
from gradient_check.checks.perturbation import perturb_replica
from gradient_check.checks.release import judge_release
from gradient_check.checks.repeatability import judge_repeatability
from gradient_check.checks.replica import judge_replica
from gradient_check.checks.rounding import judge_rounding
from gradient_check.checks.serving import judge_serving
from gradient_check.checks.slopes import GradientSlopes
from gradient_check.checks.starting_point import judge_starting_point
from gradient_check.checks.update import judge_update
from gradient_check.checks.whole_gradient import judge_whole_gradient
from gradient_check.checks.zero_entries import judge_zero_entries
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
from gradient_check.phases.modes import run_setup
from gradient_check.phases.precision import Precision, ServeMode

_ORDER = ("FAIL", "WARN", "NOTE")
_STEPS = (
    "inference", "replica", "perturbation", "forward", "repeatability", "backward", "start",
    "magnitudes", "frozen", "serving agrees", "whole gradient", "blocks", "zero entries",
    "optimizer", "concurrency", "release", "base",
)  # fmt: skip


@dataclass(frozen=True)
class Declarations:
    """The caller's declarations: parameters without a gradient, and intended non-slopes."""

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

    The test runs on a copy. The module is unchanged bit for bit, with its flags, hooks and
    gradients, and so are the random streams and the modes of the thread. The call works anywhere,
    also under `torch.inference_mode()`.

    Args:
        module: the module to train; on any device, in train or eval mode.
        probe: a small batch: a tensor, a tuple (positional arguments), a mapping (keyword
            arguments) or any pytree.
        loss: `(module, probe) -> losses`; or `(output) -> losses`, with the module's output for the
            probe; or `(output, targets) -> losses`, as PyTorch's own losses are, with the probe
            `(inputs, targets)`. Losses are a scalar or one for each example.
        precision: the device and the dtype of forwards: a Precision, or fp32, bf16 or fp16 on the
            module's device; by default float32, or the dtype of the module's weights if these have
            16 bits.
        trainable: a regex searched in parameter names, or a predicate of name and parameter; by
            default every floating point or complex parameter, frozen ones included.
        unused: names, or full-match regexes of names, of parameters that may get no gradient. One
            text is one pattern, here and below.
        stop_gradients: intended stops: regexes of whole module paths or parameter names, or parts
            of the line (`file:line: code`), each as a text or as a regex. A stop that is found is a
            note, a stop that is not found a warning.
        reversed_gradients: blocks whose backward is intended to be the slope times a factor, of
            either sign (gradient reversal), by patterns as above.
        surrogate_gradients: patterns of blocks whose gradient is intentionally not the slope (a
            spike's surrogate): only the rest of the model is compared.
        serve_mode: the mode of inference.
        entry: a function that Cog or a server calls, checked for mode decorators on `async`.
        make_optimizer: builds the optimizer for given parameters; by default AdamW.
        learning_rate: the rate of the default optimizer.
        checkpointing: recompute the blocks' activations in backward, as a recipe may ask for.
        random_loss: whether the loss draws noise, so that it differs from seed to seed. Every call
            uses the noise of one step, from one seed; undeclared noise warns.
        strict: whether skipped checks and unverified parameters are failures.
        seed: the seed of the perturbation, of dropout and of the loss's noise.

    Returns:
        The report. A failed test does not raise: call `raise_if_failed` on the report.

    Raises:
        ConfigError: an argument has a wrong type or meaning.
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
    exam.check("modes", lambda: judge_modes(exam, entry))
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


def _audit(
    exam: Examination, module: nn.Module, names: list[str], unused: Sequence[str]
) -> Numbers:
    judge_module(exam, module, names)
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
        _run_checks(flow)
        allowed.slopes.report(exam)
        if "gradients" in exam.grounds and allowed.stops.are_missing:
            paths = flow.diagnosis.names
            # also marks small declared stops as found
            attempted(lambda: find_stand_ins(subject, paths, allowed.stops), None)
        allowed.stops.report_absent(exam)
        return flow.gradient_norms
    finally:
        guard.restore(dict(subject.base.named_parameters(remove_duplicate=False)))


def _run_checks(flow: GradientFlow) -> None:
    """Run the checks of a replica, in the order of the report."""
    exam, operation, slopes = flow.exam, Operation(flow), GradientSlopes(flow)
    exam.check("inference", lambda: judge_inference(operation))
    exam.check("replica", lambda: judge_replica(operation), needs=("served",))
    exam.check("perturbation", lambda: perturb_replica(operation))
    exam.check("forward", lambda: judge_forward(flow))
    exam.check("repeatability", lambda: judge_repeatability(flow), needs=("loss",))
    exam.check("backward", lambda: judge_arrivals(flow), needs=("loss", "repeatable"))
    exam.check("start", lambda: judge_starting_point(flow), needs=("gradients",))
    exam.check("magnitudes", lambda: judge_magnitudes(flow), needs=("gradients",))
    exam.check("frozen", lambda: judge_frozen(flow), needs=("gradients",))
    exam.check("serving agrees", lambda: judge_serving(operation), needs=("served", "loss"))
    exam.check("whole gradient", lambda: judge_whole_gradient(slopes), needs=("gradients",))
    exam.check("blocks", lambda: judge_blocks(slopes), needs=("gradients",))
    if flow.subject.options.precision.autocasts or flow.is_coarse:
        needed = ("gradients", "finite gradients")
        exam.check("rounding", lambda: judge_rounding(flow), needs=needed)
    exam.check("zero entries", lambda: judge_zero_entries(flow), needs=("gradients",))
    exam.check("optimizer", lambda: judge_update(flow), needs=("gradients", "finite gradients"))
    exam.check("concurrency", lambda: judge_concurrency(operation), needs=("served", "stepped"))
    exam.check("release", lambda: judge_release(flow), needs=("loss",))
    exam.check("base", lambda: judge_base(operation))


def _adamw(learning_rate: float) -> MakeOptimizer:
    def make(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        own = list(parameters)
        fused = all(p.is_floating_point() for p in own)  # fused kernels refuse complex numbers
        return torch.optim.AdamW(own, lr=learning_rate, fused=fused)

    return make

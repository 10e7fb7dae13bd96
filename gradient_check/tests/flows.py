"""Subjects and flows of the self-test, made as `check_gradients` makes them."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gradient_check.checks.flow import GradientFlow
from gradient_check.checks.forward import judge_forward
from gradient_check.checks.operation import Operation
from gradient_check.exam.known.hosts import Block, Tower, rows, squares
from gradient_check.findings.examination import Examination
from gradient_check.findings.report import Finding
from gradient_check.instruments.differences import FLOAT32
from gradient_check.instruments.guard import Guard
from gradient_check.instruments.probe_loss import ProbeLoss
from gradient_check.instruments.selection import Selection, select
from gradient_check.instruments.subject import CheckOptions, Subject
from gradient_check.phases.precision import Precision
from gradient_check.tests.models import seeded_module

CPU = torch.device("cpu")
FP32 = Precision(CPU)


def tower(spoil: Callable[[Any, Tensor], Tensor] | None = None) -> Any:
    """A tower whose last block is spoilt; its weights are always the same."""
    kind = type("Spoilt", (Block,), {"spoil": spoil} if spoil else {})
    return seeded_module(lambda: Tower(kind()))


def sgd(rate: float = 0.1, **rest: Any) -> Any:
    return lambda parameters: torch.optim.SGD(parameters, lr=rate, **rest)


def subject_of(
    module: Any,
    loss: Callable[..., Any] = squares,
    probe: Any = None,
    trainable: Selection = None,
    **options: Any,
) -> Subject:
    """The subject of a module, at the base's values."""
    probe = rows(3, 6) if probe is None else probe
    defaults = {
        "precision": FP32,
        "serve_mode": "inference_mode",
        "make_optimizer": sgd(),
        "checkpointing": False,
        "seed": 0,
    }
    chosen = CheckOptions(**(defaults | options))
    return Subject(module, probe, ProbeLoss(loss, probe), select(module, trainable), chosen)


def flow_of(module: Any, *, unused: tuple[str, ...] = (), **rest: Any) -> GradientFlow:
    """The flow of a module whose replica has been perturbed; nothing has run yet."""
    guard = Guard(module, CPU)
    subject = subject_of(module, **rest)
    flow = GradientFlow(subject, guard, Examination(), FLOAT32, list(unused))
    subject.perturb(subject.names)
    subject.keep_buffers()
    return flow


def ran(module: Any, **rest: Any) -> GradientFlow:
    """A flow whose forward and backward have run."""
    flow = flow_of(module, **rest)
    judge_forward(flow)
    return flow


def measured(module: Any, **rest: Any) -> GradientFlow:
    """A flow whose gradients have been measured, and not judged yet."""
    flow = ran(module, **rest)
    flow.measure()
    return flow


def operation_of(flow: GradientFlow) -> Operation:
    return Operation(flow)


def found(flow: GradientFlow) -> list[tuple[str, str]]:
    """Level and code of each finding."""
    return [(finding.level, finding.code) for finding in flow.exam.findings]


def only(flow: GradientFlow) -> Finding:
    """The one finding there is."""
    (finding,) = flow.exam.findings
    return finding

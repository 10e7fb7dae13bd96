"""Checks that the gradient is the same in every calling context; this self-test needs a task.

Another thread, an ambient inference mode, and gradient checkpointing must not change it.
"""

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from cog_adapt.runner.adaptation.start import Start, adamw, example_loss, prepare_examples
from cog_adapt.runner.errors import RunnerError
from gradient_check import Check, Finding, GradientReport
from gradient_check.findings.report import Status
from gradient_check.instruments.lent_weights import SMALL_BYTES
from gradient_check.instruments.portions import HeldGradients, portions_of
from gradient_check.phases.checkpointing import blocks, recompute_blocks
from gradient_check.phases.gradient_step import GradientStep
from gradient_check.phases.modes import under_inference_mode
from gradient_check.phases.precision import Precision
from gradient_check.phases.replicas import modules_in_training, training_replica

Gradient = dict[str, Tensor]
Judged = tuple[Check, list[Finding]]

# Measured on MiniLM: 0 on the CPU in all three; the tolerance is for kernels that add in any order.
_TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 3e-2, torch.float16: 3e-2}
_SEED = 0
_MOST_SCALINGS = 30
_PORTIONS = 4  # of the gradients of a large part of a module: two portions are in memory at a time
# share of the base: memory holds three times as much at once, the copy and two gradients
_LARGE_PART = 0.5


def probe_of(start: Start) -> tuple[dict[str, Tensor], Tensor]:
    """Return the batch and targets of the start's examples."""
    return prepare_examples(start, start.data.examples)


def check_calling_contexts(start: Start) -> GradientReport:
    """Compare the gradients of all calling contexts with a plain one.

    All contexts are combined at first; each is tried alone only if the gradient then differs.
    """
    began = time.perf_counter()
    step = _step(start)
    contexts: dict[str, Callable[[], None]] = {
        "another-thread": lambda: _on_another_thread(_take_gradient, step, start),
        "ambient-inference": lambda: under_inference_mode(_take_gradient, step, start),
    }
    if blocks(step.replica):
        contexts["checkpointing"] = lambda: _recomputing(step, start)
    (judged,) = _compare(step, start, {"together": lambda: _together(step, start)})
    check, findings = judged
    if findings:
        alone = _compare(step, start, contexts)
        found = alone if any(own for _, own in alone) else [*alone, judged]
    else:
        found = [
            (replace(check, name=n, seconds=check.seconds / len(contexts)), []) for n in contexts
        ]
    return GradientReport(
        findings=tuple(finding for _, findings in found for finding in findings),
        checks=tuple(check for check, _ in found),
        gradient_norms={},
        precision=str(start.training.precision),
        seconds=time.perf_counter() - began,
    )


def _compare(
    step: GradientStep, start: Start, contexts: Mapping[str, Callable[[], None]]
) -> list[Judged]:
    """Compare the gradients in these contexts with a plain one."""
    compared = [_Compared(name, take) for name, take in contexts.items()]
    trained = {n: p for n, p in step.replica.named_parameters() if p.requires_grad}
    held = HeldGradients(trained)
    for names in _portions(start.trained.template, trained):
        held.keep(names)
        with held.dropping():
            _take_gradient(step, start)
        expected = _taken(trained)
        for each in compared:
            each.compare(held, expected)
    return [each.judge(start.training.precision) for each in compared]


def _portions(template: nn.Module, trained: Mapping[str, nn.Parameter]) -> list[list[str]]:
    """Return the names whose gradients are taken at once: all, unless that needs much memory.

    A portion costs a forward and a backward for each context. A LoRA fits one portion: SmolLM2's
    LoRA has 4 % of the base's bytes.
    """
    most = max(SMALL_BYTES, _LARGE_PART * sum(p.nbytes for p in template.parameters()))
    is_large = sum(p.nbytes for p in trained.values()) > most
    return portions_of(trained, _PORTIONS) if is_large else [list(trained)]


class _Compared:
    """The gradients in one context, by portions of the parameters, beside the plain ones."""

    def __init__(self, name: str, take: Callable[[], None]) -> None:
        self.name = name
        self.take = take
        self.failure: Exception | None = None
        self.apart = self.whole = self.seconds = 0.0

    def compare(self, held: HeldGradients, expected: Gradient) -> None:
        """Take the gradients of these names, and add up their difference from the plain ones."""
        began = time.perf_counter()
        try:
            with held.dropping():
                self.take()
            gradient = _taken(held.parameters)
        except (RunnerError, RuntimeError) as failure:
            self.failure = failure
            return
        finally:
            self.seconds += time.perf_counter() - began
        if gradient.keys() != expected.keys():
            self.apart = math.inf
            return
        self.apart += sum(_square(gradient[n] - g) for n, g in expected.items())
        self.whole += sum(_square(g) for g in expected.values())

    def judge(self, precision: Precision) -> Judged:
        """Return the check, with its finding if the gradients differ."""
        if self.failure is not None:
            text = f"no gradient could be taken: {self.failure}"
            return Check(self.name, "failed", self.seconds), [Finding(self.name, "FAIL", text)]
        error = (self.apart / self.whole) ** 0.5 if self.whole else self.apart
        limit = _TOLERANCE[precision.compute]
        status: Status = "passed" if error <= limit else "failed"
        check = Check(
            name=self.name, status=status, seconds=self.seconds, numbers={"relative error": error}
        )
        if error <= limit:
            return check, []
        message = (
            f"the gradient differs by {error:.1e} of its norm from the one taken plainly; the "
            f"limit is {limit:.0e}. Let no module keep tensors, flags or random state between "
            "calls."
        )
        return check, [Finding(self.name, "FAIL", message)]


def _step(start: Start) -> GradientStep:
    replica = training_replica(start.trained.template, start.trained.tensors)
    training = modules_in_training(replica)
    make = adamw(start.training.recipe, start.training.learning_rate)
    return GradientStep(
        replica=replica,
        loss=example_loss(start.task),
        make_optimizer=make,
        precision=start.training.precision,
        training=training,
    )


def _take_gradient(step: GradientStep, start: Start) -> None:
    """Take a finite gradient, lowering a float16 scale if that is needed."""
    for _ in range(_MOST_SCALINGS):
        step.gradients(probe_of(start), _SEED)
        step.scaler.update()  # lowers a float16 scale that overflowed; otherwise does nothing
        found = [p.grad for p in step.trained if p.grad is not None]
        if not step.precision.scaled or all(bool(g.isfinite().all()) for g in found):
            break


def _taken(parameters: Mapping[str, nn.Parameter]) -> Gradient:
    """Return the gradients, removed from their parameters."""
    gradient = {name: p.grad for name, p in parameters.items() if p.grad is not None}
    for parameter in parameters.values():
        parameter.grad = None
    return gradient


def _recomputing(step: GradientStep, start: Start) -> None:
    """Take a gradient while the blocks recompute their activations."""
    kinds = [(part, type(part)) for part in step.replica.modules()]
    recompute_blocks(step.replica)
    try:
        _take_gradient(step, start)
    finally:
        for part, kind in kinds:
            part.__class__ = kind


def _together(step: GradientStep, start: Start) -> None:
    """Take a gradient in all contexts at once."""
    take = _recomputing if blocks(step.replica) else _take_gradient
    _on_another_thread(lambda *given: under_inference_mode(take, *given), step, start)


def _square(tensor: Tensor) -> float:
    """Return the sum of the squares in float64, without a copy of the whole."""
    return float(torch.linalg.vector_norm(tensor, dtype=torch.float64)) ** 2


def _on_another_thread(
    function: Callable[[GradientStep, Start], None], step: GradientStep, start: Start
) -> None:
    raised: list[Exception] = []

    def call() -> None:
        try:
            function(step, start)
        except (RunnerError, RuntimeError) as error:
            raised.append(error)

    thread = threading.Thread(target=call, name="self-test")
    thread.start()
    thread.join()
    if raised:
        raise raised[0]

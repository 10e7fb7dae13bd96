"""Checks that the gradient is the same in every calling context; this self-test needs a task.

Another thread, an ambient inference mode, and gradient checkpointing must not change it.
"""

import threading
import time
from collections.abc import Callable

import torch
from torch import Tensor

from cog_adapt.runner.checkpointing import blocks, recompute_blocks
from cog_adapt.runner.config import Precision
from cog_adapt.runner.errors import RunnerError
from cog_adapt.runner.gradient_step import GradientStep
from cog_adapt.runner.gradients import Check, Finding, GradientReport
from cog_adapt.runner.modes import under_inference_mode
from cog_adapt.runner.replicas import modules_in_training, training_replica
from cog_adapt.runner.start import Start, adamw, encode_examples, example_loss

Gradient = dict[str, Tensor]

# Measured on MiniLM: 0 on the CPU in all three; the tolerance is for kernels that add in any order.
_TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 3e-2, torch.float16: 3e-2}
_SEED = 0
_MOST_SCALINGS = 30


def probe_of(start: Start) -> tuple[dict[str, Tensor], Tensor]:
    """Return the batch and targets of the start's examples."""
    return encode_examples(start.task, start.examples, start.labels, start.precision.device)


def check_calling_contexts(start: Start) -> GradientReport:
    """Compare the gradients of all calling contexts with one taken plainly."""
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
    for _ in range(_MOST_SCALINGS):
        step.gradients(probe_of(start), _SEED)
        step.scaler.update()  # a float16 scale that overflowed is lowered; else nothing happens
        own = step.replica.named_parameters()
        gradient = {name: p.grad.clone() for name, p in own if p.grad is not None}
        if not step.precision.scaled or all(g.isfinite().all() for g in gradient.values()):
            break
    return gradient


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

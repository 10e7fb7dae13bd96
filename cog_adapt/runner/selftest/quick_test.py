"""The short self-test: a process's first check if the whole test has passed before.

It checks the modes, one real step of an adaptation, and answers before and after it, with the code
that serves and adapts; then every bit of the base.
"""

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from cog_adapt.runner.adaptation.methods import automatic_learning_rate, gradient_method
from cog_adapt.runner.config import Recipe
from cog_adapt.runner.data.plain_values import alike
from cog_adapt.runner.inference.answers import Query
from cog_adapt.runner.inference.label_tensors import finished
from cog_adapt.runner.model.loaded_model import LoadedModel
from cog_adapt.runner.modules.adapters import Adapter
from gradient_check import GradientReport
from gradient_check.checks.modes import judge_modes
from gradient_check.findings.examination import Examination, Numbers
from gradient_check.phases.modes import run_setup


def check_quickly(model: LoadedModel, entry: Callable[..., object] | None) -> GradientReport:
    """Check a loaded model in about the time of one step; it is left bit for bit as it was.

    Args:
        model: call on the thread that owns it.
        entry: the predictor's function, checked for mode decorators that have no effect on `async`.
    """
    return run_setup(_check, model, entry)


def _check(model: LoadedModel, entry: Callable[..., object] | None) -> GradientReport:
    began, exam = time.perf_counter(), Examination()
    quick = _QuickTest(model, exam)
    exam.check("modes", lambda: judge_modes(exam, entry))
    exam.check("serve before", quick.serve_before)
    exam.check("step", quick.take_step, needs=("served",))
    exam.check("serve after", quick.serve_after, needs=("stepped",))
    exam.check("base", quick.judge_base)
    quick.forget()
    seconds = time.perf_counter() - began
    return GradientReport(
        findings=tuple(exam.findings),
        checks=tuple(exam.checks),
        gradient_norms=quick.norms,
        precision=str(model.base.precision),
        seconds=seconds,
    )


class _QuickTest:
    """One step, with answers before and after it."""

    def __init__(self, model: LoadedModel, exam: Examination) -> None:
        self.model = model
        self.exam = exam
        self.probe = model.task.probe()
        self.labels: Sequence[str] = model.task.labels(self.probe)
        self.norms: dict[str, float] = {}
        self._untrained: Adapter | None = None
        self._trained: Adapter | None = None
        self._answers: list[Any] = []
        self._is_random = False

    def serve_before(self) -> Numbers:
        """Let the base answer the probe, twice."""
        modules = self.model.predictions.modules
        self._untrained = finished(modules.starting_adapter(self.labels))
        self._answers = self._served_by(self._untrained)
        self._is_random = self._served_by(self._untrained) != self._answers
        if self._is_random:
            self.exam.add("WARN", "random-inference", "two answers to the same inputs differ.")
        self.exam.grounds.add("served")
        return {"answers": len(self._answers)}

    def take_step(self) -> Numbers:
        """Adapt for one step: its loss and gradient must be finite, and some tensor must change."""
        recipe = _recipe(self.model)
        before = self.model.start(self.probe, recipe).trained.tensors
        adaptation = finished(self.model.adapting(self.probe, recipe))
        if adaptation.adapter is None or not adaptation.report.steps:
            self.exam.add("FAIL", "optimizer", "an adaptation of one step has taken none.")
            return {}
        (step, *_) = adaptation.report.steps
        self._trained = adaptation.adapter
        self.norms = {"(all)": step.gradient_norm}
        after = self._trained.tensors
        moved = [name for name, tensor in before.items() if not _equal(tensor, after[name])]
        if not 0 < step.gradient_norm < math.inf or not moved:
            self.exam.add(
                "FAIL",
                "no-gradient",
                f"one step had the loss {step.loss:.6g} and the gradient norm "
                f"{step.gradient_norm:.3g}, and moved {len(moved)} of {len(before)} tensors. Run "
                "the whole self-test (SELF_TEST=full), which names the line.",
            )
        wrong = [name for name, tensor in after.items() if not bool(tensor.isfinite().all())]
        if wrong:
            self.exam.add(
                "FAIL",
                "grad-nonfinite",
                "a step gave values that are not finite.",
                parameters=wrong,
            )
        self.exam.grounds.add("stepped")
        return {"loss": step.loss, "gradient norm": step.gradient_norm, "moved": len(moved)}

    def serve_after(self) -> Numbers:
        """Let the trained adapter answer, then the base again, which must answer as before."""
        assert self._trained is not None
        assert self._untrained is not None
        own = self._served_by(self._trained)
        again = self._served_by(self._untrained)
        if len(own) != len(self._answers):
            self.exam.add(
                "FAIL",
                "serve",
                f"an adapter gave {len(own)} answers to {len(self._answers)} inputs. Give one for "
                "each.",
            )
        if again == self._answers or self._is_random:
            return {}
        if alike(again, self._answers):
            self.exam.add(
                "WARN", "nondeterministic", "answers before and after a step differ in digits."
            )
        else:
            self.exam.add(
                "FAIL",
                "base-changed",
                "the base answers differently after a step of an adaptation. Something is shared "
                "that must not be; run the whole self-test (SELF_TEST=full).",
            )
        return {}

    def judge_base(self) -> Numbers:
        """Check that every bit of the base and the process's flags are unchanged."""
        changes = self.model.base.census.changes(self.model.base.module)
        if changes:
            self.exam.add(
                "FAIL",
                "base-changed",
                f"the base is not as it was loaded: {'; '.join(changes[:3])}. A module must write "
                "to nothing but its own non-persistent buffers.",
            )
        return {"changes": len(changes)}

    def forget(self) -> None:
        """Drop the test's adapters, on the device too."""
        for adapter in filter(None, (self._untrained, self._trained)):
            self.model.predictions.modules.served.forget(adapter.id)

    def _served_by(self, adapter: Adapter) -> list[Any]:
        inputs = [example.input for example in self.probe]
        query = Query(inputs, adapter, options=self.model.task.probe_options)
        return finished(self.model.predictions.part(query).working())


def _recipe(model: LoadedModel) -> Recipe:
    """Return one gradient step by the task's own method, or by one that `auto` chooses."""
    template, task = model.base.template, model.task
    method = gradient_method(template, task)
    rate = automatic_learning_rate(template, task, method)
    return Recipe(method=method, max_steps=1, learning_rate=rate)


def _equal(one: Tensor, other: Tensor) -> bool:
    return torch.equal(one.detach().to(other.device, other.dtype), other)

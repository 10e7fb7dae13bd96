"""Calls a task's functions on private copies of its model, for the self-test.

An error of the task becomes a finding with the task's line.
"""

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.errors import InputError
from cog_adapt.runner.model.loaded_model import LoadedModel
from cog_adapt.runner.modules.row_noise import drawing_by_row
from cog_adapt.runner.task.task import Batch, Task, options_of_probe
from gradient_check.findings.examination import Examination, describe
from gradient_check.findings.report import Place
from gradient_check.instruments.sources import definition, module_names, raised_at
from gradient_check.phases.modes import run_inference
from gradient_check.phases.precision import Precision
from gradient_check.phases.randomness import seeded
from gradient_check.phases.replicas import serving_replica
from gradient_check.phases.room import has_room

SEED = 0
_MISFIT = re.compile(r"takes .* arguments? but|missing .* argument|unexpected keyword argument")
_ARGUMENTS = {
    "probe": ("self",),
    "encode": ("self", "inputs"),
    "labels": ("self", "examples"),
    "encode_targets": ("self", "targets", "labels"),
    "start": ("self", "module", "labels", "examples"),
    "prepare": ("self", "module", "batch", "targets"),
    "loss": ("self", "module", "batch", "targets"),
    "predict": ("self", "module", "batch", "labels", "options"),
}


class TaskCalls:
    """Calls the task, with the results of earlier checks."""

    def __init__(self, model: LoadedModel) -> None:
        self.model = model
        self.task: Task = model.task
        self.exam = Examination()
        self.probe: list[Example] = []
        self.batch: Batch = {}
        self.targets: Tensor | None = None
        self.prepared: tuple[Batch, Tensor] | None = None
        self.labels: Sequence[str] = ()
        self.tensors: dict[str, Tensor] = {}
        self._weights: dict[str, Tensor] = {}
        halves = any(p.dtype != torch.float32 for p in model.base.template.parameters())
        self.precision = model.base.precision if halves else Precision(model.base.precision.device)

    def copy(self) -> nn.Module:
        """Return a private copy of the model, with the tensors that `start` made.

        All copies share private weights, or the base's if there is no room for others.
        """
        template = self.model.base.template
        named = dict(template.named_parameters())
        is_private = has_room(self.precision.device, sum(p.nbytes for p in named.values()))
        if is_private and not self._weights:
            self._weights = {n: p.detach().clone() for n, p in named.items()}
        return serving_replica(template, self._weights | self.tensors)

    def infer(
        self, function: Callable[[nn.Module], Any], module: nn.Module, seed: int = SEED
    ) -> Any:  # noqa: ANN401 - whatever the task returns
        """Call a function of the module in the inference phase, with a seed."""
        with seeded(seed, self.precision.device):
            return run_inference(function, module, self.precision, self.model.serve_mode)

    def call(self, hook: str, function: Callable[[], Any]) -> Any:  # noqa: ANN401
        """Call one of the task's functions; its error becomes a finding with its line."""
        try:
            return function()
        except Exception as error:  # noqa: BLE001 - the task may raise anything
            self._report(hook, error)
            return None

    def _report(self, hook: str, error: Exception) -> None:
        """Add a finding on an error of a function, with the line to correct."""
        kind, own = type(self.task).__name__, getattr(type(self.task), hook)
        said = f"{kind}.{hook} raised {describe(error).rstrip('.')}."
        if _is_misfit(error, own):
            place = Place(None, definition(own))
            remedy = f"It is called as {hook}({', '.join(_ARGUMENTS[hook])}): write it so."
        elif isinstance(error, InputError):
            place = Place(None, definition(type(self.task).probe))
            remedy = f"`probe` gives this example: let it give one that `{hook}` takes."
        else:
            place = raised_at(error.__traceback__, module_names(self.model.base.template))
            remedy = self._remedy()
        self.exam.add(
            "FAIL", hook, f"{said} {remedy}", parameters=(), module=place.module, line=place.line
        )

    def _remedy(self) -> str:
        """Return the arguments of a function in words, once they are known."""
        if not self.batch or self.targets is None:
            return "Correct the line, or its arguments."
        batch = ", ".join(f"{name} {tuple(each.shape)}" for name, each in self.batch.items())
        kind = str(self.targets.dtype).removeprefix("torch.")
        targets = f"{tuple(self.targets.shape)} of {kind}"
        return f"`encode` gives {batch}, `encode_targets` {targets}. Make them and the model fit."

    def fail(self, hook: str, what: str) -> None:
        """Add a finding about one of the task's functions."""
        self.exam.add("FAIL", hook, f"{type(self.task).__name__}.{hook} {what}.")

    def losses(self, module: nn.Module, rows: slice = slice(None), seed: int = SEED) -> Any:  # noqa: ANN401
        """Return the task's losses of some rows of the probe, unchecked, without gradients."""
        assert self.targets is not None
        whole, all_targets = self.prepared or (self.batch, self.targets)
        batch, targets = {n: t[rows] for n, t in whole.items()}, all_targets[rows]
        positions = range(len(self.targets))[rows]

        def loss(given: nn.Module) -> Any:  # noqa: ANN401
            with drawing_by_row(positions):
                return self.task.loss(given, batch, targets)

        return self.infer(loss, module, seed)

    def predict(self, module: nn.Module, batch: Batch, seed: int = SEED) -> Any:  # noqa: ANN401
        """Return the task's predictions, unchecked."""
        task, options = self.task, options_of_probe(self.task)
        return self.infer(lambda m: task.predict(m, batch, self.labels, options), module, seed)


def _is_misfit(error: Exception, function: Callable[..., Any]) -> bool:
    """Return whether a function cannot be called with its arguments: no line of it has run."""
    trace = error.__traceback__
    ran = set()
    while trace is not None:
        ran.add(trace.tb_frame.f_code)
        trace = trace.tb_next
    code = getattr(inspect.unwrap(function), "__code__", None)
    is_misfit = isinstance(error, TypeError) and _MISFIT.search(str(error)) is not None
    return is_misfit and code is not None and code not in ran

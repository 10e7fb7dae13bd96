"""Finds the module at fault by checking each on its own, with its recorded inputs.

The culprit is the innermost module whose own gradient disagrees with its own central differences
while those of its children agree.
"""

from collections.abc import Callable, Collection
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map_only

from gradient_check.findings.report import NOWHERE, Place
from gradient_check.instruments import differences
from gradient_check.instruments.directions import DirectionKind
from gradient_check.instruments.graph import nodes
from gradient_check.instruments.noise import real, tiled
from gradient_check.instruments.padding import ignoring_padding
from gradient_check.instruments.sources import definition
from gradient_check.instruments.subject import Subject
from gradient_check.phases.modes import casting, run_adaptation
from gradient_check.phases.randomness import seeded

_MOST_MODULES = 250


@dataclass
class _Call:
    """A module and the arguments of its call."""

    part: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def innermost_wrong(
    subject: Subject, modules: dict[int, str], apart: Collection[str | None] = ()
) -> Place:
    """Return the module at fault, and the line of its custom backward if it has one.

    Args:
        subject: its forward is run.
        modules: names of the replica's modules, by their ids.
        apart: names of modules that are not suspected.
    """
    # in the order in which calls end: children first
    for identity, call in _record_calls(subject).items():
        if modules.get(identity) in apart:
            continue
        disproved = _disproved_alone(subject, call)
        if disproved is not None:
            return Place(modules.get(identity), disproved.custom_backward())
    return _custom_backward_anywhere(subject)


def _disproved_alone(subject: Subject, call: _Call) -> "_LocalCheck | None":
    """Return the check of one call if it proves the gradient wrong; a repeated call may raise."""
    with suppress(Exception):
        check = _LocalCheck(subject, call)
        return check if check.is_wrong() else None
    return None


def _record_calls(subject: Subject) -> dict[int, _Call]:
    calls: dict[int, _Call] = {}

    def note(part: nn.Module, args: Any, kwargs: Any, output: Any) -> None:  # noqa: ANN401
        if id(part) not in calls and len(calls) < _MOST_MODULES:
            copied = tree_map_only(Tensor, lambda t: t.detach().clone(), (args, kwargs))
            calls[id(part)] = _Call(part, *copied)

    handles = [
        part.register_forward_hook(note, with_kwargs=True) for part in subject.replica.modules()
    ]
    try:
        with suppress(Exception):
            subject.forward()
    finally:
        for handle in handles:
            handle.remove()
    return calls


class _LocalCheck:
    """Compares the gradients of one module's call with its own differences."""

    def __init__(self, subject: Subject, call: _Call) -> None:
        self.subject = subject
        self.call = call
        inputs = [t for t in tree_leaves((call.args, call.kwargs)) if _floats(t)]
        self.inputs = [t for t in inputs if t.numel()]
        named = {n: p for n, p in call.part.named_parameters() if p.requires_grad}
        self.names, self.parameters = list(named), list(named.values())
        self.functions: list[Any] = []
        self.scale = 1.0

    def is_wrong(self) -> bool:
        """Return whether the gradient of an input or of the parameters is disproved."""
        gradients = run_adaptation(self._gradients, self.subject.replica, self.subject.training)
        count = len(self.inputs)
        inputs, own = gradients[:count], gradients[count:]
        part, named = self.call.part, zip(self.names, own, strict=True)
        kept = [real(ignoring_padding(part, name, gradient)) for name, gradient in named]
        return self._disproved(self.inputs, inputs, inputs) or self._disproved(
            [real(p.detach()) for p in self.parameters], [real(g.to_dense()) for g in own], kept
        )

    def custom_backward(self) -> str | None:
        """Return the line of the backward of the last custom function in the call's graph."""
        return definition(self.functions[0].backward) if self.functions else None

    def _disproved(
        self, tensors: list[Tensor], gradients: list[Tensor], kept: list[Tensor]
    ) -> bool:
        """Compare slopes, and whether entries without gradient matter; `kept` ignores padding."""
        if not tensors:
            return False
        limits = differences.FLOAT32
        if self.subject.options.precision.autocasts:
            limits = differences.SIXTEEN_BIT
        verdict = differences.compare(
            self._forward,
            tensors,
            gradients,
            limits.block,
            limits,
            loss=self.scale,
            ways=(DirectionKind.BENT, DirectionKind.VALUES),
        )
        if verdict.wrong:
            return True
        views, directions = differences.zero_entries(tensors, kept)
        noise = limits.noise * self.scale
        return bool(views) and differences.depends_linearly(self._forward, views, directions, noise)

    def _forward(self) -> float:
        forward: Callable[..., Any] = self._projected
        subject = self.subject
        return float(run_adaptation(lambda _: forward(), subject.replica, subject.training))

    def _gradients(self, _: nn.Module) -> list[Tensor]:
        inputs = [t.requires_grad_() for t in self.inputs]
        try:
            value = self._projected()
            self.functions = [
                type(n)._forward_cls
                for n in nodes(value.grad_fn)
                if hasattr(type(n), "_forward_cls")
            ]
            wanted = [*inputs, *self.parameters]
            found = torch.autograd.grad(value, wanted, allow_unused=True)
        finally:
            for tensor in inputs:
                tensor.requires_grad_(False)
        return [torch.zeros_like(t) if g is None else g for t, g in zip(wanted, found, strict=True)]

    def _projected(self) -> Tensor:
        """Return the sum of the call's outputs, each multiplied by fixed weights."""
        precision = self.subject.options.precision
        lifted = self.subject.loss.lifted or nullcontext()
        with seeded(self.subject.seed, precision.device), casting(precision), lifted:
            inputs = iter(self.inputs)
            args, kwargs = tree_map_only(
                Tensor,
                lambda t: next(inputs).clone() if _floats(t) and t.numel() else t,
                (self.call.args, self.call.kwargs),
            )
            output = self.call.part(*args, **kwargs)
        tensors = [t for t in tree_leaves(output) if _floats(t)]
        total: Tensor = tensors[0].new_zeros((), dtype=torch.float64)
        size = 0.0
        for number, tensor in enumerate(tensors):
            weighed = tensor.double() * tiled(tensor, number).double()
            total = total + weighed.sum()
            size += float(weighed.detach().square().sum())
        self.scale = max(size**0.5, 1e-12)
        return total


def _custom_backward_anywhere(subject: Subject) -> Place:
    """Return the place of the graph's custom function if there is exactly one."""
    found: set[Any] = set()

    def note(losses: Tensor) -> None:
        kinds = (type(n) for n in nodes(losses.grad_fn))
        found.update(k._forward_cls for k in kinds if hasattr(k, "_forward_cls"))

    subject.loss.observer = note
    try:
        subject.forward()
    finally:
        subject.loss.observer = None
    return Place(None, definition(found.pop().backward)) if len(found) == 1 else NOWHERE


def _floats(value: object) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()

"""Proves the cause of a wrong gradient by leaving suspects out.

A `detach`, a `.data`, a hook, a `no_grad` or a gradient taken without `create_graph` is the cause
if the gradient is right without it. A harmless detach (a softmax's shift) makes no difference, so
it is not reported.
"""

import math
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from torch import Tensor

from gradient_check.diagnosis.hook_lines import WatchedHook
from gradient_check.diagnosis.stand_ins import StandIns
from gradient_check.findings.report import NOWHERE, Place
from gradient_check.instruments import differences
from gradient_check.instruments.directions import DirectionKind
from gradient_check.instruments.event import RecordedCall
from gradient_check.instruments.noise import real
from gradient_check.instruments.padding import ignoring_padding
from gradient_check.instruments.recording import SKIPPABLE, Recorder
from gradient_check.instruments.sources import definition
from gradient_check.instruments.subject import Subject
from gradient_check.instruments.syntax import Position

_MOST = 24


class _Hook(NamedTuple):
    """A hook in the table that holds it."""

    place: Place
    table: dict[int, Any]
    key: int

    def replaced(self, other: Callable[..., Any] | None) -> Callable[[], None]:
        """Replace it by another hook, or None; return the function that restores it."""
        before = dict(self.table)
        if other is None:
            del self.table[self.key]
        else:
            self.table[self.key] = other

        def put_back() -> None:
            self.table.clear()
            self.table.update(before)

        return put_back


class Interventions:
    """Repeats the gradients with one suspect left out at a time.

    Args:
        subject: gives the gradients.
        modules: names of the replica's modules, by their ids.
        stand_ins: intended stops, held while slopes are compared.
    """

    def __init__(
        self, subject: Subject, modules: dict[int, str], stand_ins: StandIns | None = None
    ) -> None:
        self.subject = subject
        self.modules = modules
        self.stand_ins = stand_ins or StandIns(subject)

    def cure(self, names: Collection[str]) -> Place:
        """Return the place of the first suspect without which these gradients are right."""
        with self._put_by(names):
            return self._first_cure(names)

    @contextmanager
    def _put_by(self, names: Collection[str]) -> Iterator[None]:
        """Set the gradients aside for a while."""
        own = self.subject.parameters
        kept = {n: p.grad for n, p in own.items() if not self.subject.is_large}
        try:
            with self.subject.held.keeping(names):
                yield
        finally:
            for name, parameter in own.items():
                parameter.grad = kept.get(name)

    def is_right(self, names: Collection[str]) -> bool:
        """Return whether these gradients are right in the present forward."""
        with self._put_by(names):
            return self._is_cured(names, ())

    def _first_cure(self, names: Collection[str]) -> Place:
        hooks: dict[str, list[_Hook]] = {}
        for hook in self._hooks():
            hooks.setdefault(hook.place.line or str(len(hooks)), []).append(hook)
        for group in hooks.values():  # one function may be the hook of many parameters
            if self._is_cured_without(group, names):
                return self._changing_line(group[0])
        for events in self._suspects():
            if self._is_cured(names, [event.index for event in events]):
                return next((e for e in events if e.is_cut), events[0]).place(self.modules)
        return NOWHERE

    def _changing_line(self, hook: _Hook) -> Place:
        """Return the place of the call in a hook that changes the gradient, else of the hook."""
        watched = WatchedHook(hook.table[hook.key])
        put_back = hook.replaced(watched)
        try:
            self._run(None)
        finally:
            put_back()
        return watched.place(hook.place, self.modules)

    def _suspects(self) -> Iterator[list[RecordedCall]]:
        """Yield the calls that can be left out, grouped by what loses the graph, last first."""
        recorder = Recorder()
        self._run(recorder)
        lines: dict[object, list[RecordedCall]] = {}
        for event in recorder.events:
            if event.stack.position and event.index not in self.stand_ins.constant:
                cause = _cause_of(event)
                lines.setdefault(cause, []).append(event)
        lines.pop(None, None)
        found = [
            own for own in lines.values() if any(e.is_cut or e.name == "register_hook" for e in own)
        ]
        yield from found[-_MOST:][::-1]

    def _hooks(self) -> Iterator[_Hook]:
        """Yield each module's and parameter's backward hooks."""
        for part in self.subject.replica.modules():
            module = self.modules.get(id(part))
            yield from _hooks_in(part._backward_hooks, module)
            yield from _hooks_in(part._backward_pre_hooks, module)
        for name, parameter in self.subject.parameters.items():
            part = self.subject.replica.get_submodule(name.rpartition(".")[0])
            for table in ("_backward_hooks", "_post_accumulate_grad_hooks"):
                hooks = getattr(parameter, table, None) or {}
                yield from _hooks_in(hooks, self.modules.get(id(part)))

    def _is_cured_without(self, hooks: list[_Hook], names: Collection[str]) -> bool:
        put_back = [hook.replaced(None) for hook in hooks]
        try:
            return self._is_cured(names, ())
        finally:
            for each in reversed(put_back):
                each()

    def _is_cured(self, names: Collection[str], skip: Collection[int]) -> bool:
        loss = self._run(Recorder(skip) if skip else None)
        if not math.isfinite(loss):
            return False
        own = self.subject.parameters
        found = {n: g for n in names if (g := own[n].grad) is not None and bool(g.any())}
        if len(found) < len(names):
            return False
        pairs = [(real(own[n].detach()), real(g.to_dense())) for n, g in found.items()]
        limits = differences.FLOAT32
        if self.subject.options.precision.autocasts:
            limits = differences.SIXTEEN_BIT
        with self.stand_ins.held(skip):
            verdict = differences.compare(
                self.subject.forward,
                [t for t, _ in pairs],
                [g for _, g in pairs],
                limits.block,
                limits,
                loss=loss,
                ways=(DirectionKind.BENT, DirectionKind.VALUES),
            )
            if verdict.wrong or verdict.rough:
                return False
            replica = self.subject.replica
            kept = {n: ignoring_padding(replica, n, g) for n, g in found.items()}
            return not self._partly_zero(kept, loss, limits)

    def _partly_zero(
        self, gradients: dict[str, Tensor], loss: float, limits: differences.Limits
    ) -> bool:
        tensors = [real(self.subject.parameters[n].detach()) for n in gradients]
        views, directions = differences.zero_entries(tensors, [real(g) for g in gradients.values()])
        noise = limits.noise * abs(loss)
        forward = self.subject.forward
        return bool(views) and differences.depends_linearly(forward, views, directions, noise)

    def _run(self, recorder: Recorder | None) -> float:
        self.subject.loss.recorder = recorder
        try:
            with suppress(Exception):
                return self.subject.gradients()
            return math.nan
        finally:
            self.subject.loss.recorder = None


def _cause_of(event: RecordedCall) -> Position | None:
    """Return the line that takes the graph from a call, or that sets a hook; else None.

    For a call inside a block without gradients, this is the line that begins the block.
    """
    if not event.grad_enabled and not event.in_inference_mode:
        return event.stack.grad_off() or event.stack.position
    is_suspect = event.is_cut and event.name in (*SKIPPABLE, "grad")
    return event.stack.position if is_suspect or event.name == "register_hook" else None


def _hooks_in(table: dict[int, Any], module: str | None) -> Iterator[_Hook]:
    for key, hook in list(table.items()):
        yield _Hook(Place(module, definition(hook)), table, key)

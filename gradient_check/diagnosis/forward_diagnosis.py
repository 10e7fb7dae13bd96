"""Finds the module and the line of a forward's fault by running it again under a recorder.

Runs only after a failure of a check.
"""

import sys
from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

from torch import Tensor, nn

from gradient_check.diagnosis.watching import Watching
from gradient_check.findings.report import NOWHERE, Place
from gradient_check.instruments.held_tensors import inference_tensors
from gradient_check.instruments.recording import Recorder
from gradient_check.instruments.sources import module_names, raised_at, text_of
from gradient_check.instruments.subject import Subject

_MODES = ("grad mode", "inference mode", "autocast")
_SWITCHES = ("_set_grad_enabled", "_enter_inference_mode", "set_autocast_enabled")


class ForwardDiagnosis:
    """Locates faults of one subject's forwards.

    Attributes:
        names: the name `path (Class)` of each module of the replica, by the module's `id()`.
    """

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.names = module_names(subject.replica)

    def record(
        self, *, training: bool = True, recorder: Recorder | None = None
    ) -> tuple[Recorder, Tensor | None]:
        """Record a forward; return also its losses with their graph, or None if it raised."""
        kept: list[Tensor] = []
        recorder = recorder or Recorder()
        self.subject.loss.recorder = recorder
        self.subject.loss.observer = kept.append
        try:
            with suppress(Exception), uncompiled():
                self.subject.forward() if training else self.subject.evaluate()
        finally:
            self.subject.loss.recorder = self.subject.loss.observer = None
        return recorder, kept[0] if kept else None

    def escape(self) -> Place:
        """Return the place where the last value left torch."""
        recorder, _ = self.record()
        if not recorder.escapes:
            return NOWHERE
        return recorder.escapes[-1][0].place(self.names)

    def freezes(self, names: Collection[str]) -> Place:
        """Return the place where the forward switches `requires_grad` off."""
        wanted = {id(self.subject.parameters[name]) for name in names}
        recorder, _ = self.record()
        for event in recorder.events:
            freezes = event.name in ("requires_grad_", "requires_grad.__set__")
            if freezes and id(event.inputs[0]) in wanted:
                return event.place(self.names)
        return NOWHERE

    def raised(self, error: Exception) -> Place:
        """Return the place where an exception was raised."""
        names = self.names | module_names(self.subject.base)
        return raised_at(error.__traceback__, names)

    def losses(self) -> Place:
        """Return the place of the last call that computed the losses."""
        recorder, losses = self.record()
        maker = None if losses is None else recorder.made.get(id(losses))
        if maker is None and losses is not None and losses.grad_fn is not None:
            maker = recorder.maker(losses.grad_fn)
        return NOWHERE if maker is None else maker.place(self.names)

    def other_module(self) -> Place:
        """Return the loss's line that computes with another module, if it ignores its own."""
        recorder, _ = self.record()
        own = {id(p) for p in self.subject.replica.parameters()}
        place = NOWHERE
        for event in recorder.events:
            is_used = any(id(tensor) in own for tensor in event.inputs)
            if is_used or any(owner in self.names for owner in event.stack.owners):
                return NOWHERE
            if not place.line and any(isinstance(t, nn.Parameter) for t in event.inputs):
                place = Place(None, next(map(text_of, event.stack.callers[-1:]), None))
        return place

    def inference_mode(self) -> Place:
        """Find the inference mode inside the forward that made the refused tensor."""
        recorder, _ = self.record()
        seen: set[int] = set()
        waiting = list(recorder.events[-1].inputs) if recorder.events else []
        while waiting:
            tensor = waiting.pop()
            maker = recorder.made.get(id(tensor))
            if maker is None or id(tensor) in seen or not tensor.is_inference():
                continue
            if maker.in_inference_mode:
                return maker.place(self.names)
            seen.add(id(tensor))
            waiting.extend(maker.inputs)
        return NOWHERE

    def tampering(self, what: str) -> Place:
        """Find the line that changed a mode, a flag or the seed."""
        if what in _MODES:
            recorder, _ = self.record()
            switches = [e for e in recorder.events if e.name in _SWITCHES and e.stack.position]
            if switches:
                return switches[-1].place(self.names)
        casts = what == "autocast"
        with Watching(self.names, casts=casts) as watching, suppress(Exception):
            self.subject.forward()
        return watching.place

    def kept_tensors(self) -> str:
        """Return a phrase naming the class attributes and globals that hold inference tensors."""
        found = sorted(set(inference_tensors(self.subject.replica)))
        return f" ({', '.join(found[:3])})" if found else ""

    def first_use(self, name: str) -> Place:
        """Return the place where the forward first computes with a parameter."""
        recorder, _ = self.record()
        wanted = id(self.subject.parameters[name])
        uses = (e for e in recorder.events if wanted in e.leaves and e.stack.position)
        return next((event.entry(self.names) for event in uses), NOWHERE)

    def owner(self, names: Collection[str]) -> str | None:
        """Return the module that holds the first of these parameters."""
        path = next(iter(names)).rpartition(".")[0]
        return self.names.get(id(self.subject.replica.get_submodule(path)))


def uncompiled() -> AbstractContextManager[Any]:
    """Run compiled code as written, call by call, so that a recorder sees its lines."""
    dynamo = sys.modules.get("torch._dynamo")  # present only if code was compiled
    return nullcontext() if dynamo is None else dynamo.set_stance("force_eager")

"""Why: the module and the line behind a failure. Runs only after one.

Each question runs the training forward again under a recorder; nothing here decides whether
something is wrong.
"""

from collections.abc import Collection
from contextlib import suppress

import torch
from torch import Tensor

from cog_adapt.runner.gradients import locality
from cog_adapt.runner.gradients.backward_trace import BackwardTrace
from cog_adapt.runner.gradients.culprits import (
    GATES,
    STEPS,
    address,
    earlier_backward,
    explain,
    flowing_into,
    likeliest,
    misdeclared,
    overwriting,
    stand_in,
)
from cog_adapt.runner.gradients.event import Cuts
from cog_adapt.runner.gradients.guard import Guard
from cog_adapt.runner.gradients.interventions import Interventions
from cog_adapt.runner.gradients.leftovers import inference_tensors
from cog_adapt.runner.gradients.recording import Recorder
from cog_adapt.runner.gradients.report import NOWHERE, Place
from cog_adapt.runner.gradients.sources import module_names, raised_at
from cog_adapt.runner.gradients.subject import Subject
from cog_adapt.runner.gradients.watching import Watching

_MODES = ("grad mode", "inference mode", "autocast")


class Diagnosis:
    """Answers for one subject."""

    def __init__(self, subject: Subject, guard: Guard) -> None:
        self.subject = subject
        self.guard = guard
        self.names = module_names(subject.replica)
        self._silent: Cuts | None = None
        self._trace: BackwardTrace | None = None

    def record(self, *, training: bool = True) -> tuple[Recorder, Tensor | None]:
        """A forward, recorded; its losses with their graph, unless it raised."""
        kept: list[Tensor] = []
        recorder = Recorder()
        self.subject.loss.recorder = recorder
        self.subject.loss.observer = kept.append
        try:
            with suppress(Exception):
                self.subject.forward() if training else self.subject.evaluate()
        finally:
            self.subject.loss.recorder = self.subject.loss.observer = None
        return recorder, kept[0] if kept else None

    def missing(self, names: Collection[str]) -> Place:
        """What cut these parameters off the loss."""
        recorder, losses = self.record()
        if losses is None:
            return NOWHERE
        own = self.subject.parameters
        wanted = {id(own[name]) for name in names}
        culprits = explain(wanted, recorder.cuts_of(losses))
        if not culprits:
            culprits = explain(wanted, frozenset(e for e in recorder.events if e.is_cut))
        if not culprits:
            return self._lost_in_backward(names)
        first = culprits[0]
        place = first.place(self._names_with_loss())
        return place if place.module else Place(self.owner(names), place.line)

    def _lost_in_backward(self, names: Collection[str]) -> Place:
        trace = BackwardTrace(self.subject)
        place = trace.stopped(names, self.names)
        return place if place.line else Interventions(self.subject, self.names).cure(names)

    def is_cut(self, name: str) -> bool:
        """Whether a recorded cut explains why a parameter gets no gradient."""
        if self._silent is None:
            recorder, losses = self.record()
            self._silent = frozenset() if losses is None else recorder.cuts_of(losses)
        return bool(explain({id(self.subject.parameters[name])}, self._silent))

    def is_stepped(self, name: str) -> bool:
        """Whether a parameter's gradient ends at a step function or in a saturated one."""
        return self._zero_at(name).startswith(STEPS)

    def is_gated(self, name: str) -> bool:
        """Whether it ends at a gate that is shut on this probe: a ReLU, a hinge, a clamp."""
        return self._zero_at(name).startswith(GATES)

    def _zero_at(self, name: str) -> str:
        """The name of the graph's node where a parameter's gradient becomes 0."""
        if self._trace is None:
            self._trace = BackwardTrace(self.subject)
        self._trace.culprit = None
        self._trace.spoilt([name], self.names, nonfinite=False)
        node = self._trace.culprit
        return "" if node is None else str(node.name())

    def escape(self) -> Place:
        """Where the last value left torch."""
        recorder, _ = self.record()
        if not recorder.escapes:
            return NOWHERE
        return recorder.escapes[-1][0].place(self._names_with_loss())

    def spoilt(self, names: Collection[str], *, nonfinite: bool) -> Place:
        """The first step of backward that made these gradients zero, or not finite."""
        place = BackwardTrace(self.subject).spoilt(names, self.names, nonfinite=nonfinite)
        if place.line or nonfinite:
            return place
        return Interventions(self.subject, self.names).cure(names)

    def wrong(self, names: Collection[str]) -> Place:
        """What makes these gradients differ from the loss's slope."""
        place = Interventions(self.subject, self.names).cure(names)
        if place.line:
            return place
        place = locality.innermost_wrong(self.subject, self.names)
        return place if place.line else self._suspect(place)

    def _suspect(self, place: Place) -> Place:
        """The last line of the module at fault that loses a graph, or sets a hook."""
        recorder, losses = self.record()
        flowing = flowing_into(frozenset() if losses is None else recorder.cuts_of(losses))
        return likeliest(recorder, flowing, place, self.names)

    def surrogate(self, *, is_flat: bool) -> Place:
        """The line of a straight-through estimator: a step function whose slope is made up.

        Args:
            is_flat: small steps do not change the loss at all, so comparisons count as well.
        """
        recorder, _ = self.record()
        event = stand_in(recorder, is_flat=is_flat)
        return event.place(self.names) if event is not None else NOWHERE

    def freezes(self, names: Collection[str]) -> Place:
        """Where the forward switches `requires_grad` off."""
        wanted = {id(self.subject.parameters[name]) for name in names}
        recorder, _ = self.record()
        for event in recorder.events:
            freezes = event.name in ("requires_grad_", "requires_grad.__set__")
            if freezes and id(event.inputs[0]) in wanted:
                return event.place(self.names)
        return NOWHERE

    def raised(self, error: Exception) -> Place:
        """Where an exception was raised."""
        names = self.names | module_names(self.subject.base)
        return raised_at(error.__traceback__, names)

    def backward_raised(self, error: Exception) -> Place:
        """Where the custom backward is, or the write that a saved tensor did not survive."""
        place = raised_at(error.__traceback__, self.names)
        if place.line and "modified by an inplace operation" not in str(error):
            return place
        recorder, losses = self.record()
        if "second time" in str(error):
            return earlier_backward(recorder, self.names)
        return misdeclared(losses, str(error)) or overwriting(recorder, str(error), self.names)

    def nonfinite_value(self) -> Place:
        """The first call that made NaN or infinity out of finite values."""
        recorder, _ = self.record()
        for event in recorder.events:
            if "fill" in event.name or "full" in event.name or not event.stack.position:
                continue
            if _sound(event.inputs) and not _sound(event.outputs):
                return event.place(self._names_with_loss())
        return NOWHERE

    def tampering(self, what: str) -> Place:
        """The line that changed a mode, a flag or the seed."""
        if what in _MODES:
            recorder, _ = self.record()
            switches = [e for e in recorder.events if e.name in _SWITCHES and e.stack.position]
            if switches:
                return switches[-1].place(self._names_with_loss())
        casts = what == "autocast"
        with Watching(self._names_with_loss(), casts=casts) as watching, suppress(Exception):
            self.subject.forward()
        return watching.place

    def writes_weights(self) -> Place:
        """Where a forward writes to parameters or buffers in place."""
        replica = self.subject.replica
        storages = {address(t) for t in (*replica.parameters(), *replica.buffers())}
        recorder, _ = self.record()
        for event in recorder.events:
            if event.writes and event.inputs and address(event.inputs[0]) in storages:
                return event.place(self._names_with_loss())
        return NOWHERE

    def kept_tensors(self) -> str:
        """Names of class attributes and globals that hold inference tensors, as a phrase."""
        found = sorted(set(inference_tensors(self.subject.replica)))
        return f" ({', '.join(found[:3])})" if found else ""

    def owner(self, names: Collection[str]) -> str | None:
        """The module that holds the first of these parameters."""
        path = next(iter(names)).rpartition(".")[0]
        return self.names.get(id(self.subject.replica.get_submodule(path)))

    def _names_with_loss(self) -> dict[int, str]:
        return self.names


_SWITCHES = ("_set_grad_enabled", "_enter_inference_mode", "set_autocast_enabled")


def _sound(tensors: Collection[Tensor]) -> bool:
    floating = (t.detach() for t in tensors if t.is_floating_point())
    return all(bool(torch.isfinite(t).all()) for t in floating)

"""Finds the module and the line behind a gradient that failed. Runs only after a failure.

Each method runs the training forward again under a recorder. It locates faults; the checks judge
them.
"""

from collections.abc import Collection
from typing import Any

from gradient_check.diagnosis import locality
from gradient_check.diagnosis.backward_trace import BackwardTrace
from gradient_check.diagnosis.culprits import (
    GATES,
    STEPS,
    earlier_backward,
    explain,
    flowing_into,
    likeliest,
    misdeclared,
    overwriting,
)
from gradient_check.diagnosis.forward_diagnosis import ForwardDiagnosis
from gradient_check.diagnosis.interventions import Interventions
from gradient_check.diagnosis.kept_contexts import place_of_overwriting
from gradient_check.diagnosis.stand_ins import StandIns
from gradient_check.findings.report import NOWHERE, Place
from gradient_check.instruments.event import Cuts
from gradient_check.instruments.guard import Guard
from gradient_check.instruments.sources import raised_at
from gradient_check.instruments.subject import Subject


class Diagnosis:
    """Locates faults of one subject's gradients; `forward` locates those of its forwards."""

    def __init__(self, subject: Subject, guard: Guard) -> None:
        self.subject = subject
        self.guard = guard
        self.forward = ForwardDiagnosis(subject)
        self.names = self.forward.names
        self._silent: Cuts | None = None
        self._trace: BackwardTrace | None = None

    def missing(self, names: Collection[str]) -> Place:
        """Find what cut these parameters off the loss."""
        recorder, losses = self.forward.record()
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
        place = first.place(self.names)
        return place if place.module else Place(self.forward.owner(names), place.line)

    def _lost_in_backward(self, names: Collection[str]) -> Place:
        trace = BackwardTrace(self.subject)
        place = trace.stopped(names, self.names)
        return place if place.line else Interventions(self.subject, self.names).cure(names)

    def is_cut(self, name: str) -> bool:
        """Return whether a recorded cut explains why a parameter gets no gradient."""
        return bool(self.cuts(name))

    def cuts(self, name: str) -> list[Place]:
        """Return the places of the recorded cuts that keep a parameter from its gradient."""
        if self._silent is None:
            recorder, losses = self.forward.record()
            self._silent = frozenset() if losses is None else recorder.cuts_of(losses)
        culprits = explain({id(self.subject.parameters[name])}, self._silent)
        return [event.place(self.names) for event in culprits]

    def is_stepped(self, name: str) -> bool:
        """Return whether a parameter's gradient ends at a step function or in a saturated one."""
        node = self._zero_at(name)
        return _name_of(node).startswith(STEPS) and node not in self._traced().constant

    def is_gated(self, name: str) -> bool:
        """Return whether a gradient ends at a gate that this probe shuts (ReLU, hinge, clamp)."""
        return _name_of(self._zero_at(name)).startswith(GATES)

    def ends(self, names: Collection[str]) -> dict[Place, list[str]]:
        """Return the places where gradients become 0, each with the parameters behind it."""
        groups: dict[Place, list[str]] = {}
        for name in names:
            place = self._traced().spoilt([name], self.names, nonfinite=False)
            groups.setdefault(place, []).append(name)
        return groups

    def _zero_at(self, name: str) -> Any:  # noqa: ANN401 - nodes have no common type in Python
        """Return the graph's node where a parameter's gradient becomes 0, or None."""
        trace = self._traced()
        trace.culprit = None
        trace.spoilt([name], self.names, nonfinite=False)
        return trace.culprit

    def _traced(self) -> BackwardTrace:
        if self._trace is None:
            self._trace = BackwardTrace(self.subject)
        return self._trace

    def spoilt(self, names: Collection[str], *, nonfinite: bool) -> Place:
        """Find the first step of backward that made these gradients zero, or not finite."""
        place = BackwardTrace(self.subject).spoilt(names, self.names, nonfinite=nonfinite)
        if place.line or nonfinite:
            return place
        return Interventions(self.subject, self.names).cure(names)

    def wrong(self, names: Collection[str], stand_ins: StandIns | None = None) -> Place:
        """Find the cause of these gradients' difference from the loss's slope, except stand-ins."""
        place = earlier_backward(self.forward.record()[0], self.names)
        if place.line:
            return place
        interventions = Interventions(self.subject, self.names, stand_ins)
        place = interventions.cure(names)
        if not place.line:
            place = place_of_overwriting(self.forward, interventions, names)
        if place.line:
            return place
        apart = stand_ins.modules(self.names) if stand_ins else set()
        place = locality.innermost_wrong(self.subject, self.names, apart)
        return place if place.line else self.suspect(place, stand_ins)

    def suspect(self, place: Place, stand_ins: StandIns | None = None) -> Place:
        """Find the last line of the module at fault that loses a graph or sets a hook."""
        recorder, losses = self.forward.record()
        flowing = flowing_into(frozenset() if losses is None else recorder.cuts_of(losses))
        apart = stand_ins.constant if stand_ins else ()
        return likeliest(recorder, flowing, place, self.names, apart)

    def backward_raised(self, error: Exception) -> Place:
        """Find the custom backward, or the write to a saved tensor, that made backward raise."""
        place = raised_at(error.__traceback__, self.names)
        if place.line and "modified by an inplace operation" not in str(error):
            return place
        recorder, losses = self.forward.record()
        if "second time" in str(error):
            return earlier_backward(recorder, self.names)
        return misdeclared(losses, str(error)) or overwriting(recorder, str(error), self.names)


def _name_of(node: Any) -> str:  # noqa: ANN401
    return "" if node is None else str(node.name())

"""Finds the values that a forward deliberately keeps from its gradient, and their effect.

Straight-through estimators (and the detached losses of their operands), a library's own `detach`,
and the stops that the caller declares. Runs only after a gradient was found to differ.
"""

import os
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from torch import Tensor, nn

from gradient_check.diagnosis.culprits import is_hard_sample, is_step_call
from gradient_check.diagnosis.entry_statistics import entry_statistics
from gradient_check.diagnosis.straight_through import operands_of, subtracts_itself
from gradient_check.findings.report import Place
from gradient_check.instruments.crossing_points import CrossingPoints
from gradient_check.instruments.crossings import Crossings, Sites
from gradient_check.instruments.declared import DeclaredStops
from gradient_check.instruments.event import RecordedCall
from gradient_check.instruments.graph import nodes
from gradient_check.instruments.held_calls import HeldCalls
from gradient_check.instruments.recording import Recorder
from gradient_check.instruments.subject import Subject
from gradient_check.phases.libraries import is_library_file

_STOPS = ("detach", "data.__get__")
_HARD = "gumbel_softmax"
_TORCHS_STOPS = tuple(
    os.path.join(os.path.dirname(nn.__file__), "utils", name)
    for name in ("spectral_norm.py", "parametrizations.py")
)


@dataclass
class StandIns:
    """The stops of one forward, by kind: indices of calls, and custom functions."""

    subject: Subject
    surrogates: list[Place] = field(default_factory=list)
    libraries: list[Place] = field(default_factory=list)
    declared: list[Place] = field(default_factory=list)
    constant: set[int] = field(default_factory=set)
    linear: set[int] = field(default_factory=set)
    soft: set[int] = field(default_factory=set)
    functions: list[Any] = field(default_factory=list)
    sites: Sites = field(default_factory=Sites)

    @property
    def places(self) -> list[Place]:
        """All places, those of step functions first."""
        return [*self.surrogates, *self.libraries, *self.declared]

    def modules(self, names: dict[int, str]) -> set[str | None]:
        """Return the modules with stops, and those around declared blocks, as `path (Class)`."""
        declared = [(p.module or "").split(" (")[0] for p in self.sites.places.values()]
        around = {
            name
            for name in names.values()
            for path in declared
            if f"{path}.".startswith(f"{name.split(' (')[0]}.") or name.startswith("(root)")
        }
        return around | {place.module for place in self.places}

    def __bool__(self) -> bool:
        return bool(self.has_stops or self.sites)

    @property
    def has_stops(self) -> bool:
        """Whether there are stops, besides declared blocks."""
        return bool(self.constant or self.linear or self.soft or self.functions)

    @contextmanager
    def held(self, skip: Collection[int] = ()) -> Iterator[Crossings]:
        """Hold them at their present values for a while; yield the values that enter the blocks.

        If there are blocks, a forward and a backward first measure the gradients that these pass
        backward, without the calls to skip.
        """
        crossings = Crossings(self.sites)
        if not self:
            yield crossings
            return
        loss = self.subject.loss
        kept = loss.recorder, loss.added
        loss.added = crossings.added
        mode = HeldCalls(self.constant, self.linear, self.soft, self.functions, crossings)
        try:
            with CrossingPoints(crossings).watching(), ExitStack() as replaced:
                self._see(crossings, skip)
                crossings.mode = loss.recorder = mode
                replaced.enter_context(mode.replacing())
                self.subject.forward()
                yield crossings
        finally:
            loss.recorder, loss.added = kept

    def _see(self, crossings: Crossings, skip: Collection[int]) -> None:
        """Take the gradients that declared blocks pass backward here."""
        if not self.sites:
            return
        crossings.phase = "seen"
        crossings.mode = self.subject.loss.recorder = HeldCalls(crossings=crossings, skip=skip)
        self.subject.gradients()
        scaler = self.subject.step.scaler
        crossings.hold(scaler.get_scale() if scaler.is_enabled() else 1.0)


def find_stand_ins(
    subject: Subject, names: dict[int, str], declared: DeclaredStops, sites: Sites | None = None
) -> StandIns:
    """Record a forward, and find the stops in it.

    Args:
        subject: its forward is run.
        names: names of the replica's modules, by their ids.
        declared: the caller's own.
        sites: of declared blocks, to be held besides.
    """
    recorder, kept = Recorder(), list[Tensor]()
    subject.loss.recorder, subject.loss.observer = recorder, kept.append
    try:
        subject.forward()
    finally:
        subject.loss.recorder = subject.loss.observer = None
    found = StandIns(subject, sites=sites or Sites())
    apart = found.sites.declared_kinds
    functions = {f.forward.__code__: f for f in functions_of(kept) if f not in apart}
    own = {id(t) for e in recorder.events for t in operands_of(e, recorder)}
    meant = _meant(recorder.events, names, declared) if declared.patterns else set()
    for event in recorder.events:
        _sort_in(found, event, recorder, own, names, meant, functions)
    found.constant |= entry_statistics(recorder, found.sites)
    return found


def _sort_in(  # noqa: PLR0913 - one event, and all that tells its kind
    found: StandIns,
    event: RecordedCall,
    recorder: Recorder,
    operands: set[int],
    names: dict[int, str],
    declared: Collection[int],
    functions: dict[CodeType, Any],
) -> None:
    place = event.place(names)
    if is_hard_sample(event) and event.index not in found.sites.calls:
        (found.soft if event.name == _HARD else found.linear).add(event.index)
        found.surrogates.append(place)
    elif event.stack.in_custom_function:
        function = next((functions[c] for c, _ in event.stack.frames if c in functions), None)
        if function and function not in found.functions and is_step_call(event):
            found.functions.append(function)
            found.surrogates.append(place)
    elif event.index in declared:
        found.constant.add(event.index)
        found.declared.append(place)
    elif event.is_cut and event.name in _STOPS and subtracts_itself(event, recorder):
        found.constant.add(event.index)
        found.surrogates.append(place)
    elif event.is_cut and event.name in _STOPS and id(event.inputs[0]) in operands:
        # a loss that draws the code to its input, or the input to its code
        found.constant.add(event.index)
    elif event.is_cut and _is_a_librarys(event):
        found.constant.add(event.index)
        found.libraries.append(place)


def _meant(events: list[RecordedCall], names: dict[int, str], declared: DeclaredStops) -> set[int]:
    """Return the indices of declared stops; a stop of values without a gradient counts too.

    Other calls in a block without gradients stop nothing, and are examined last.
    """
    events = [e for e in events if not e.stack.in_custom_function]
    stops = [e for e in events if e.is_cut or e.name in _STOPS]
    admitted = declared.admits_all([event.place(names) for event in stops])
    if declared.are_missing:
        others = [e for e in events if e.outputs and not e.grad_enabled]
        declared.admits_all([event.place(names) for event in others])
    return {e.index for e, is_meant in zip(stops, admitted, strict=True) if is_meant}


def _is_a_librarys(event: RecordedCall) -> bool:
    position = event.stack.position
    if not event.grad_enabled and event.stack.frames[0][0].co_filename.startswith(_TORCHS_STOPS):
        return True
    if not event.grad_enabled:
        position = event.stack.grad_off() or position
    elif event.name not in _STOPS:
        return False
    return position is not None and is_library_file(os.path.abspath(position[0]))


def functions_of(losses: list[Tensor]) -> list[Any]:
    """Return the custom functions in the graph of these losses."""
    kinds = {type(node) for each in losses for node in nodes(each.grad_fn)}
    return [kind._forward_cls for kind in kinds if hasattr(kind, "_forward_cls")]

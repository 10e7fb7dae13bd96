"""Finds why inference and an eval forward with gradients differ. Runs only after they did.

Either a forward goes on with what an earlier call kept, at other weights, or the code takes another
way where no gradients are recorded.
"""

from collections.abc import Collection, Iterator, Sequence
from difflib import SequenceMatcher

import torch
from torch import Tensor

from gradient_check.checks.flow import GradientFlow
from gradient_check.diagnosis.copies import fresh_replica
from gradient_check.diagnosis.retention import is_made_before, place_of_keeping
from gradient_check.findings.examination import attempted
from gradient_check.findings.report import NOWHERE, Place
from gradient_check.instruments.event import RecordedCall
from gradient_check.instruments.recording import Recorder
from gradient_check.instruments.sources import module_names
from gradient_check.instruments.subject import Subject

_NEAR = 1e-3  # relative: a fast path rounds otherwise
_MOST = 4000


class ServingDifferences:
    """Reports why inference differs from a flow's forward in eval mode."""

    def __init__(self, flow: GradientFlow) -> None:
        self.exam = flow.exam
        self.diagnosis = flow.diagnosis
        self.subject = flow.subject

    def report_kept(self, losses: str) -> None:
        """Report a forward that goes on with what an earlier one kept.

        Args:
            losses: of such a forward and of a replica that never ran, as a phrase.
        """
        place = attempted(self._kept_call, NOWHERE)
        self.exam.add(
            "FAIL",
            "stale-forward",
            "a forward goes on with what an earlier one kept, computed from other weights: "
            f"{losses}, the latter of a replica that never ran. Keep nothing that was computed "
            "from weights.",
            module=place.module,
            line=place.line,
        )

    def report_other_way(self, losses: str) -> None:
        """Report an inference that computes something else.

        Args:
            losses: with gradients and of the inference, as a phrase.
        """
        place = attempted(self._other_way, NOWHERE)
        self.exam.add(
            "FAIL",
            "serve-differs",
            f"inference and an eval forward with gradients differ: {losses}. A fast path or a "
            "cache answers inference and leaves out what is trained.",
            module=place.module,
            line=place.line,
        )

    def fresh_losses(self) -> Tensor:
        """Return the losses of an eval forward of a replica of the same values that never ran."""
        with fresh_replica(self.subject):
            return self.subject.evaluate()

    def _kept_call(self) -> Place:
        """Return the line of a first forward that keeps a result which a second one goes on with.

        Of a number, it is the call from which the second forward leaves the way of the first.
        """
        forward = self.diagnosis.forward
        place = place_of_keeping(forward, is_made_before, training=False)
        if place.line is not None:
            return place
        with fresh_replica(self.subject):
            earlier, _ = forward.record(training=False)
            later, _ = forward.record(training=False)
            names = module_names(self.subject.replica)
        event = _diverging(later, earlier)
        return NOWHERE if event is None else event.place(names)

    def _other_way(self) -> Place:
        """Return the call by which inference leaves the way of a forward with gradients."""
        evaluated, _ = self.diagnosis.forward.record(training=False)
        served, names = _recorded_inference(self.subject)
        found = _diverging(evaluated, served)
        return NOWHERE if found is None else found.place(self.diagnosis.names | names)


def _recorded_inference(subject: Subject) -> tuple[Recorder, dict[int, str]]:
    """Record an inference of the replica's values; return also the names of its modules."""
    recorder = Recorder()
    subject.put_back_buffers()
    adapted = subject.adapted()
    subject.loss.recorder = recorder
    try:
        subject.serve(adapted, subject.seed)
    finally:
        subject.loss.recorder = None
    return recorder, module_names(adapted)


def _diverging(expected: Recorder, found: Recorder) -> RecordedCall | None:
    """Return the call at which one recorded forward leaves the way of another, to other values.

    A part that is computed by other calls, and gives the same, is no such call.

    Args:
        expected: of one forward.
        found: of another at the same values and inputs, of which the call is.
    """
    ours, theirs = expected.events[:_MOST], found.events[:_MOST]
    own, its = ([(e.name, e.stack.position) for e in events] for events in (ours, theirs))
    apart: RecordedCall | None = None
    matcher = SequenceMatcher(None, own, its, autojunk=False)
    for kind, begin, end, its_begin, its_end in matcher.get_opcodes():
        ours_here, theirs_here = ours[begin:end], theirs[its_begin:its_end]
        if kind != "equal":
            apart = next(iter(theirs_here or ours_here))
            continue
        other = next(_with_other_values(ours_here, theirs_here), None)
        if other is not None:
            is_given = _all_near(other[0].inputs, other[1].inputs)
            return other[1] if is_given else apart or other[1]
    return apart


def _with_other_values(
    events: Sequence[RecordedCall], others: Sequence[RecordedCall]
) -> Iterator[tuple[RecordedCall, RecordedCall]]:
    """Yield the pairs of calls that got, or gave, other values."""
    for one, other in zip(events, others, strict=True):
        if not (_all_near(one.inputs, other.inputs) and _all_near(one.outputs, other.outputs)):
            yield one, other


def _all_near(some: Collection[Tensor], others: Collection[Tensor]) -> bool:
    return len(some) == len(others) and all(map(_near, some, others))


def _near(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape or one.is_complex() or other.is_complex():
        return one.shape == other.shape and torch.equal(one, other)
    one, other = one.detach().float(), other.detach().float()
    scale = float(other.abs().nan_to_num(0.0).max()) if other.numel() else 0.0
    return torch.allclose(one, other, rtol=0.0, atol=_NEAR * scale, equal_nan=True)

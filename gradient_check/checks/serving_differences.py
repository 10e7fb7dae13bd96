"""Finds why inference and an eval forward with gradients differ. Runs only after they differed.

Either a forward reuses a result that an earlier call stored, at other weights, or the code takes
another path while no gradients are recorded.
"""

from collections.abc import Collection, Iterator, Sequence
from difflib import SequenceMatcher

import torch
from torch import Tensor

from gradient_check.checks.flow import GradientFlow
from gradient_check.checks.operation import Operation, apart, close
from gradient_check.diagnosis.copies import fresh_replica
from gradient_check.diagnosis.retention import is_made_before, place_of_keeping
from gradient_check.findings.examination import attempted
from gradient_check.findings.report import NOWHERE, Place
from gradient_check.instruments.event import RecordedCall
from gradient_check.instruments.recording import Recorder
from gradient_check.instruments.sources import module_names
from gradient_check.instruments.subject import Subject

_NEAR = 1e-3  # relative: a fast path rounds differently
_MOST = 4000


def report_serving_difference(operation: Operation, served: Tensor, evaluated: Tensor) -> None:
    """Report why inference and an eval forward with gradients differ.

    Args:
        operation: the base, whose replica is served.
        served: the losses of the inference.
        evaluated: the losses of the forward.
    """
    flow = operation.flow
    fresh = attempted(lambda: _fresh_losses(flow.subject), evaluated)
    if close(fresh, served, 10 * operation.same, flow.scale):
        _report_kept(flow, apart(evaluated, fresh))
    else:
        _report_other_way(flow, apart(evaluated, served))


def _fresh_losses(subject: Subject) -> Tensor:
    """Return the losses of an eval forward of a replica of the same values that never ran."""
    with fresh_replica(subject):
        return subject.evaluate()


def _report_kept(flow: GradientFlow, losses: str) -> None:
    """Report a forward that uses a value stored by an earlier forward."""
    place = attempted(lambda: _kept_call(flow), NOWHERE)
    flow.exam.add(
        "FAIL",
        "stale-forward",
        "a forward uses a value that an earlier forward computed from other weights and stored: "
        f"{losses}, the latter of a replica that never ran. Store no value that was computed from "
        "weights.",
        module=place.module,
        line=place.line,
    )


def _report_other_way(flow: GradientFlow, losses: str) -> None:
    """Report an inference that computes another function."""
    place = attempted(lambda: _other_way(flow), NOWHERE)
    flow.exam.add(
        "FAIL",
        "serve-differs",
        f"inference and an eval forward with gradients differ: {losses}. A fast path or a cache "
        "answers inference and leaves out trained parameters.",
        module=place.module,
        line=place.line,
    )


def _kept_call(flow: GradientFlow) -> Place:
    """Return the line of a first forward that stores a result which a second forward uses.

    For a stored number, it is the call at which the second forward leaves the path of the first.
    """
    forward = flow.diagnosis.forward
    place = place_of_keeping(forward, is_made_before, training=False)
    if place.line is not None:
        return place
    with fresh_replica(flow.subject):
        earlier, _ = forward.record(training=False)
        later, _ = forward.record(training=False)
        names = module_names(flow.subject.replica)
    event = _diverging(later, earlier)
    return NOWHERE if event is None else event.place(names)


def _other_way(flow: GradientFlow) -> Place:
    """Return the call at which inference leaves the path of a forward with gradients."""
    evaluated, _ = flow.diagnosis.forward.record(training=False)
    served, names = _recorded_inference(flow.subject)
    found = _diverging(evaluated, served)
    return NOWHERE if found is None else found.place(flow.diagnosis.names | names)


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
    """Return the call at which one recorded forward leaves another's path and its values differ.

    A part computed by other calls with equal results is no such call.

    Args:
        expected: of one forward.
        found: of another at the same values and inputs; the call is one of these.
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
    """Yield the pairs of calls with other arguments or results."""
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

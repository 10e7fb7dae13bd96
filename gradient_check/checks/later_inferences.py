"""Checks that an inference sees weights that changed since the module's last inference.

A server gives each adapter a replica of its own, which hides a weight merged once for inference. A
loop that evaluates and trains one module shows it.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from gradient_check.checks.flow import GradientFlow
from gradient_check.checks.holdings import Holdings, holdings_of
from gradient_check.checks.operation import Operation, apart, close
from gradient_check.diagnosis.copies import fresh_replica
from gradient_check.diagnosis.retention import Retention
from gradient_check.findings.examination import attempted
from gradient_check.findings.report import NOWHERE, Place
from gradient_check.instruments.recording import Recorder
from gradient_check.instruments.sources import module_names
from gradient_check.instruments.subject import Subject
from gradient_check.phases.modes import pass_through_training
from gradient_check.phases.room import has_room

_FAR = 0.5  # times the weights' spread

_Slots = Sequence[tuple[str, str]]


def judge_later_inferences(operation: Operation, served: nn.Module, before: Holdings) -> None:
    """Fail an inference that uses a value stored by an earlier inference of the same module.

    Args:
        operation: the base, whose replica is served.
        served: a replica that has run its first inference.
        before: the tensors that its attributes held before that inference.
    """
    flow = operation.flow
    added = [
        slot for slot, ids in holdings_of(served).items() if ids - before.get(slot, frozenset())
    ]
    if not added or not _has_room(flow.subject):
        return
    losses = attempted(lambda: _losses(flow.subject), None)
    if losses is None:
        return
    later, first = losses
    if not close(later, first, 10 * operation.same, flow.scale):
        _report(flow, added, apart(later, first))


def _has_room(subject: Subject) -> bool:
    """Return whether there is room for another replica."""
    size = sum(parameter.nbytes for parameter in subject.parameters.values())
    return not subject.is_large or has_room(subject.options.precision.device, size)


def _losses(subject: Subject) -> tuple[Tensor, Tensor] | None:
    """Return the losses of a later inference at other weights, and of a first one there.

    Between the two a training forward runs, and the module is put in training and back, as a loop
    does: a value that either drops is no fault. The result is None if the training forward alone
    changes the answers of inference, by a counter, say.
    """
    with fresh_replica(subject):
        replica = subject.replica
        buffers = {name: b.detach().clone() for name, b in replica.named_buffers()}
        first = subject.serve(replica, subject.seed)
        _train(subject, buffers)
        if not torch.equal(first, subject.serve(replica, subject.seed)):
            return None
        _train(subject, buffers)
        subject.perturb(subject.names, _FAR)
        return subject.serve(replica, subject.seed), subject.serve_adapted()


def _train(subject: Subject, buffers: Mapping[str, Tensor]) -> None:
    """Run a training forward, and put the buffers back to these values."""
    subject.forward()
    pass_through_training(subject.replica)
    for name, buffer in subject.replica.named_buffers():
        if name in buffers and buffers[name].shape == buffer.shape:
            buffer.detach().copy_(buffers[name])


def _report(flow: GradientFlow, added: _Slots, losses: str) -> None:
    """Report an inference that does not see weights which changed after an earlier one."""
    place = attempted(lambda: _place(flow.subject, added), NOWHERE)
    flow.exam.add(
        "FAIL",
        "stale-forward",
        "an inference uses a value that an earlier inference of the same module computed from "
        f"other weights and stored: {losses}, the latter of a replica that never ran. Store no "
        "value that was computed from weights, or drop it in `train`.",
        module=place.module,
        line=place.line,
    )


def _place(subject: Subject, added: _Slots) -> Place:
    """Return the line that stores a result of an inference for the next inference."""
    with fresh_replica(subject):
        earlier = _recorded(subject)
        retention = Retention(subject, earlier)
        later = _recorded(subject)
        inputs = (tensor for event in later.events for tensor in event.inputs)
        kept = (t for t in inputs if id(t) in earlier.made and id(t) not in later.made)
        tensor = next(kept, None)
        if tensor is None:
            return _place_of_attribute(subject, retention, added)
        place = earlier.made[id(tensor)].place(module_names(subject.replica))
        line = retention.line_of(tensor, lambda: _serve(subject))
    return Place(place.module, line or place.line)


def _place_of_attribute(subject: Subject, retention: Retention, added: _Slots) -> Place:
    """Return the line that sets an attribute to a value of no recorded call: a layer, say."""
    names = module_names(subject.replica)
    for path, name in added:
        line = retention.line_of_attribute(path, name, lambda: _serve(subject))
        if line is not None:
            return Place(names[id(subject.replica.get_submodule(path))], line)
    return NOWHERE


def _recorded(subject: Subject) -> Recorder:
    recorder = Recorder()
    subject.loss.recorder = recorder
    try:
        _serve(subject)
    finally:
        subject.loss.recorder = None
    return recorder


def _serve(subject: Subject) -> Tensor:
    return subject.serve(subject.replica, subject.seed)

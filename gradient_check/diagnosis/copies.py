"""Finds copies of parameter values: the original's, copies in attributes, caches.

Runs only after a failure, like the diagnosis that it uses.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from gradient_check.diagnosis.diagnosis import Diagnosis
from gradient_check.findings.report import NOWHERE, Place
from gradient_check.instruments.event import RecordedCall
from gradient_check.instruments.held_tensors import kept_tensors
from gradient_check.instruments.recording import Recorder
from gradient_check.instruments.sources import module_names
from gradient_check.instruments.subject import Subject
from gradient_check.phases.replicas import training_replica


class Copies:
    """Finds where the subject of one diagnosis computes with a copy instead of a parameter."""

    def __init__(self, diagnosis: Diagnosis) -> None:
        self.diagnosis = diagnosis
        self.subject = diagnosis.subject
        self.module = diagnosis.guard.module

    def uses_original(self) -> Place:
        """Return the place where the replica computes with a parameter of the original."""
        originals = (self.module, self.subject.base)
        foreign = {id(p) for module in originals for p in module.parameters()}
        recorder, _ = self.diagnosis.forward.record()
        self.diagnosis.guard.put_back_gradients()
        return self._use_of(foreign, recorder)

    def kept(self, names: Collection[str], *, training: bool = True) -> tuple[str, Place]:
        """Describe a tensor that copies a parameter's values; return also where it is used."""
        originals = dict(self.module.named_parameters())
        for name in names:
            path = self._copy_of(originals[name].detach())
            if path is not None:
                place = self._at(path, training=training)
                return f" {path} is a copy of {name}, and may be used instead.", place
        return "", NOWHERE

    def _copy_of(self, weight: Tensor) -> str | None:
        """Return the path of a tensor with the same values in other memory."""
        for path, tensor in kept_tensors(self.module):
            alike = tensor.shape == weight.shape and tensor.device == weight.device
            is_other = alike and tensor.data_ptr() != weight.data_ptr()
            if is_other and weight.numel() > 1 and torch.equal(tensor, weight):
                return path
        return None

    def cached(self, names: Collection[str]) -> Place:
        """Return the place where only the first forward computes with these parameters."""
        subject = self.subject
        if _uses(self.diagnosis.forward.record()[0], {id(subject.parameters[n]) for n in names}):
            return NOWHERE
        with fresh_replica(subject):
            recorder, _ = self.diagnosis.forward.record()
            used = _uses(recorder, {id(subject.parameters[n]) for n in names})
            return used[0].place(module_names(subject.replica)) if used else NOWHERE

    def _at(self, path: str, *, training: bool) -> Place:
        """Return the place of the first call in a forward that uses the tensor at a path."""
        copies = {id(t) for p, t in kept_tensors(self.subject.replica) if p == path}
        return self._use_of(copies, self.diagnosis.forward.record(training=training)[0])

    def _use_of(self, tensors: set[int], recorder: Recorder) -> Place:
        names = self.diagnosis.names
        for event in recorder.events:
            if any(id(tensor) in tensors for tensor in event.inputs):
                return event.entry(names)
        return NOWHERE


@contextmanager
def fresh_replica(subject: Subject) -> Iterator[None]:
    """Replace the subject's replica, for a while, by a new replica with the same values."""
    kept = subject.replica, subject.parameters
    values = {name: p.detach() for name, p in subject.parameters.items()}
    subject.replica = subject.step.replica = training_replica(subject.template, values)
    trained = dict(subject.replica.named_parameters())
    subject.parameters = {name: trained[name] for name in subject.names}
    try:
        yield
    finally:
        subject.replica, subject.parameters = kept
        subject.step.replica = subject.replica


def _uses(recorder: Recorder, leaves: set[int]) -> list[RecordedCall]:
    return [event for event in recorder.events if event.leaves & leaves and event.stack.position]

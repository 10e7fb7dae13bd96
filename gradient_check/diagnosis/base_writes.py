"""Finds the line of a forward that writes to parameters or buffers. Runs only after a failure.

Inference is examined as well as training: a forward may write while no gradients are recorded.
"""

from collections.abc import Callable, Collection, Iterable

from torch import Tensor, nn

from gradient_check.diagnosis.culprits import address
from gradient_check.diagnosis.forward_diagnosis import ForwardDiagnosis
from gradient_check.diagnosis.retention import line_of, named_tensors
from gradient_check.findings.examination import attempted
from gradient_check.findings.report import NOWHERE, Place
from gradient_check.instruments.event import RecordedCall
from gradient_check.instruments.recording import Recorder
from gradient_check.instruments.sources import module_names
from gradient_check.instruments.subject import Subject
from gradient_check.phases.replicas import serving_replica


def place_of_write(forward: ForwardDiagnosis, names: Collection[str]) -> Place:
    """Return the place where a forward writes to a module's tensors, or replaces one of them.

    Args:
        forward: records the forwards of its subject.
        names: the names of the changed parameters and buffers.
    """
    subject = forward.subject
    written = _tensors_of(subject.replica)  # the tensors before the forward
    event = _write_to(written, forward.record()[0])
    if event is not None:
        return event.place(forward.names)
    served = _private_base(subject)
    written, recorder = _tensors_of(served), Recorder()
    attempted(_recorded(subject, served, recorder), None)
    event = _write_to(written, recorder)
    if event is not None:
        return event.place(module_names(served))
    served = _private_base(subject)
    line = line_of(lambda: named_tensors(served, names), _recorded(subject, served, None))
    return Place(_owner_of(served, names), line) if line else NOWHERE


def _private_base(subject: Subject) -> nn.Module:
    """Return a replica of the base's values that never ran, in memory of its own."""
    values = {name: p.detach().clone() for name, p in subject.template.named_parameters()}
    return serving_replica(subject.template, values)


def _recorded(
    subject: Subject, module: nn.Module, recorder: Recorder | None
) -> Callable[[], object]:
    """Return a function that runs a module's inference under a recorder."""

    def run() -> object:
        subject.loss.recorder = recorder
        try:
            return subject.serve(module, subject.seed)
        finally:
            subject.loss.recorder = None

    return run


def _tensors_of(module: nn.Module) -> list[Tensor]:
    return [t for t in (*module.parameters(), *module.buffers()) if t.numel()]


def _write_to(tensors: Iterable[Tensor], recorder: Recorder) -> RecordedCall | None:
    """Return the call that writes to one of some tensors.

    Of several calls, it is the first that writes other tensors' values: a counter's write comes
    later.
    """
    own = list(tensors)
    known, storages = {id(t) for t in own}, {address(t) for t in own}
    writes = [
        event
        for event in recorder.events
        if event.writes and event.inputs and event.stack.position
        if id(event.inputs[0]) in known or address(event.inputs[0]) in storages
    ]
    of_values = (event for event in writes if len(event.inputs) > 1)
    return next(of_values, None) or next(iter(writes), None)


def _owner_of(module: nn.Module, names: Collection[str]) -> str | None:
    path = min(names).rpartition(".")[0]
    return module_names(module).get(id(module.get_submodule(path)))

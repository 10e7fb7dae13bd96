"""Checks that an inference sees weights that changed after an earlier inference of one module.

An adapter is served from a replica of its own, which hides a weight that is merged once for
inference. A loop that evaluates and trains one module meets it.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from gradient_check.checks.flow import GradientFlow
from gradient_check.diagnosis.copies import fresh_replica
from gradient_check.diagnosis.retention import Retention
from gradient_check.findings.examination import attempted
from gradient_check.findings.report import NOWHERE, Place
from gradient_check.instruments.held_tensors import tensors_in
from gradient_check.instruments.recording import Recorder
from gradient_check.instruments.sources import module_names
from gradient_check.phases.modes import pass_through_training
from gradient_check.phases.room import has_room

_FAR = 0.5  # of the weights' spread
_TORCHS_OWN = frozenset(vars(nn.Module()))


class LaterInferences:
    """Compares a second inference of one module, at other weights, with a module that never ran.

    Args:
        flow: its subject is served.
        served: a replica that is about to run its first inference.
    """

    def __init__(self, flow: GradientFlow, served: nn.Module) -> None:
        self.flow = flow
        self.subject = flow.subject
        self.served = served
        self._before = _holdings(served)

    @property
    def can_be_asked(self) -> bool:
        """Whether the inference left tensors in attributes, and another replica has room."""
        if not _added(self._before, _holdings(self.served)):
            return False
        size = sum(parameter.nbytes for parameter in self.subject.parameters.values())
        is_small = not self.subject.is_large
        return is_small or has_room(self.subject.options.precision.device, size)

    def losses(self) -> tuple[Tensor, Tensor] | None:
        """Return the losses of a later inference at other weights, and of a first one there.

        Between the two a training forward runs, and the module is put in training and back, as a
        loop does: what either forgets is no fault. None where the training forward alone changes
        what inference answers, by a counter, say.
        """
        subject = self.subject
        with fresh_replica(subject):
            replica = subject.replica
            buffers = {name: b.detach().clone() for name, b in replica.named_buffers()}
            first = subject.serve(replica, subject.seed)
            self._train(buffers)
            if not torch.equal(first, subject.serve(replica, subject.seed)):
                return None
            self._train(buffers)
            subject.perturb(subject.names, _FAR)
            return subject.serve(replica, subject.seed), subject.serve_adapted()

    def _train(self, buffers: Mapping[str, Tensor]) -> None:
        """Run a training forward, and put the buffers back to these values."""
        self.subject.forward()
        pass_through_training(self.subject.replica)
        _put_back(self.subject.replica, buffers)

    def report(self, losses: str) -> None:
        """Report an inference that goes on with what an earlier one kept.

        Args:
            losses: of such an inference and of a module that never ran, as a phrase.
        """
        place = attempted(self._place, NOWHERE)
        self.flow.exam.add(
            "FAIL",
            "stale-forward",
            "an inference goes on with what an earlier one of the same module kept, computed from "
            f"other weights: {losses}, the latter of a replica that never ran. Keep nothing that "
            "was computed from weights, or forget it in `train`.",
            module=place.module,
            line=place.line,
        )

    def _place(self) -> Place:
        """Return the line that keeps a result of an inference which the next one uses."""
        subject = self.subject
        with fresh_replica(subject):
            earlier = self._recorded()
            retention = Retention(subject, earlier)
            later = self._recorded()
            inputs = (tensor for event in later.events for tensor in event.inputs)
            kept = (t for t in inputs if id(t) in earlier.made and id(t) not in later.made)
            tensor = next(kept, None)
            if tensor is None:
                return self._of_attribute(retention)
            place = earlier.made[id(tensor)].place(module_names(subject.replica))
            line = retention.line_of(tensor, self._serve)
        return Place(place.module, line or place.line)

    def _of_attribute(self, retention: Retention) -> Place:
        """Return the line that gives an attribute what no recorded call made: a layer, say."""
        names = module_names(self.subject.replica)
        slots = _added(self._before, _holdings(self.served))
        for path, name in slots:
            line = retention.line_of_attribute(path, name, self._serve)
            if line is not None:
                return Place(names[id(self.subject.replica.get_submodule(path))], line)
        return NOWHERE

    def _serve(self) -> Tensor:
        return self.subject.serve(self.subject.replica, self.subject.seed)

    def _recorded(self) -> Recorder:
        recorder = Recorder()
        self.subject.loss.recorder = recorder
        try:
            self._serve()
        finally:
            self.subject.loss.recorder = None
        return recorder


def _put_back(module: nn.Module, buffers: Mapping[str, Tensor]) -> None:
    for name, buffer in module.named_buffers():
        if name in buffers and buffers[name].shape == buffer.shape:
            buffer.detach().copy_(buffers[name])


_Holdings = Mapping[tuple[str, str], frozenset[int]]


def _holdings(module: nn.Module) -> _Holdings:
    """Return the ids of the tensors that each plain attribute of each part holds."""
    seen = {id(part) for part in module.modules()}  # a configuration is shared by many parts
    return {
        (path, name): frozenset(id(tensor) for tensor in tensors_in(value, seen))
        for path, part in module.named_modules()
        for name, value in vars(part).items()
        if name not in _TORCHS_OWN
    }


def _added(before: _Holdings, now: _Holdings) -> list[tuple[str, str]]:
    return [slot for slot, ids in now.items() if ids - before.get(slot, frozenset())]

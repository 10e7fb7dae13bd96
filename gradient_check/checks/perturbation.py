"""Step 6: moves the replica off the base's values, at which zeros would hide faults."""

from gradient_check.checks.operation import Operation
from gradient_check.findings.examination import Numbers


def perturb_replica(operation: Operation) -> Numbers:
    """Move the replica off the base's values: zeros among them (LoRA's B) would hide faults."""
    subject = operation.flow.subject
    _lend_weights(operation)
    subject.perturb(subject.names)
    subject.keep_buffers()
    return {}


def _lend_weights(operation: Operation) -> None:
    """Let a large base lie in the module's memory, if the first inferences wrote to nothing."""
    weights = operation.flow.subject.weights
    if weights is None:
        return
    operation.early_changes = operation.changes()
    if operation.early_changes:
        weights.copy()
    else:
        weights.lend()
    operation.census = operation.new_census()

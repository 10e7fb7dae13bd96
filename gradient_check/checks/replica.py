"""Step 5: checks that a replica at the base's values answers as the base does."""

from gradient_check.checks.operation import Operation, apart, close
from gradient_check.findings.examination import Numbers


def judge_replica(operation: Operation) -> Numbers:
    """Check that the replica, still at the base's values, answers as the base does."""
    subject = operation.flow.subject
    assert operation.served is not None
    answer = subject.serve(subject.replica, subject.seed, "no_grad")
    if not close(operation.served, answer, operation.same):
        operation.flow.exam.add(
            "FAIL",
            "replica",
            f"a replica answers differently from the base: {apart(operation.served, answer)}. The "
            "structure was not copied completely; store state in parameters, buffers or plain "
            "attributes.",
        )
    return {}

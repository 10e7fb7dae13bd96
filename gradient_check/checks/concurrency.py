"""Step 12: takes a step of the optimizer during inferences on other threads."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from torch import Tensor

from gradient_check.checks.kept_graphs import report_later_backward
from gradient_check.checks.operation import Operation, apart, close
from gradient_check.findings.examination import Numbers, describe
from gradient_check.instruments.draws import DrawsAgain

_REPEATS = 3


def judge_concurrency(operation: Operation) -> Numbers:
    """Check that inferences in two threads during a step answer as before the step.

    Inferences that disturb only each other are a warning: some libraries change their modules while
    they run, and a serving process runs one inference at a time.
    """
    draws, loss = operation.draws, operation.flow.subject.loss
    loss.recorder = None if draws is None else DrawsAgain(draws)
    try:
        return _judge(operation)
    finally:
        loss.recorder = None


def _judge(operation: Operation) -> Numbers:
    if operation.draws is not None and not _repeats(operation):
        operation.flow.exam.add(
            "NOTE",
            "random-loss",
            "inferences at the same time were not compared: their noise is drawn outside torch "
            "(by Python or NumPy), from one stream for all threads.",
        )
        return {}
    try:
        trouble = _trouble_of(operation, 2)
    except RuntimeError as error:  # from the step; errors of inferences are caught
        report_later_backward(operation.flow, error)
        return {}
    if not trouble:
        return {}
    if any(_trouble_of(operation, 1) for _ in range(_REPEATS)):
        operation.flow.exam.add(
            "FAIL",
            "race",
            f"{trouble}. Training writes to a value that inference reads (a class attribute, a "
            "global, a shared tensor).",
        )
    else:
        operation.flow.exam.add(
            "WARN",
            "race",
            f"{trouble}, but a single inference agrees: two inferences at the same time disturb "
            "each other. Let one thread serve this module.",
        )
    return {}


def _repeats(operation: Operation) -> bool:
    """Return whether an inference on another thread, with the recorded draws, repeats the first."""
    subject = operation.flow.subject
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(subject.serve, subject.base)
    assert operation.served is not None
    is_raised = answer.exception() is not None  # the check of concurrency reports the error
    return is_raised or close(operation.served, answer.result(), operation.same)


def _trouble_of(operation: Operation, threads: int) -> str:
    """Run inferences on some threads during a step; return a phrase for the fault, if any."""
    subject = operation.flow.subject
    calls: list[Callable[[], Tensor]] = [lambda: subject.serve(subject.base)] * 2
    with ThreadPoolExecutor(threads) as pool:
        answers = [pool.submit(lambda: [call() for call in calls]) for _ in range(threads)]
        subject.put_back_buffers()
        subject.give_back()
        subject.take_step()
        errors = [error for error in (future.exception() for future in answers) if error]
    if errors:
        return f"an inference during a step raised {describe(errors[0])}"
    results = [answer for future in answers for answer in future.result()]
    assert operation.served is not None
    served, same = operation.served, operation.same
    others = [answer for answer in results if not close(served, answer, same)]
    if not others:
        return ""
    apart_by = apart(served, others[0])
    return f"{len(others)} of {len(results)} inferences during a step differ: {apart_by}"

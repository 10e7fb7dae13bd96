"""Step 12: takes a step of the optimizer during inferences on other threads."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from torch import Tensor

from gradient_check.checks.kept_graphs import report_later_backward
from gradient_check.checks.operation import Operation, apart, close
from gradient_check.findings.examination import Numbers, describe
from gradient_check.instruments.draws import DrawsAgain

_REPEATS = 3


class ConcurrencyCheck:
    """Judges inferences that run while the replica is trained."""

    def __init__(self, operation: Operation) -> None:
        self.operation = operation
        self.subject = operation.subject
        self.exam = operation.exam

    def judge(self) -> Numbers:
        """Check that inferences in two threads during a step answer as before it.

        Inferences that disturb each other, but not the training, are a warning: some libraries
        change their modules while they run, and a process that serves runs one at a time.
        """
        draws, loss = self.operation.draws, self.subject.loss
        loss.recorder = None if draws is None else DrawsAgain(draws)
        try:
            return self._judge()
        finally:
            loss.recorder = None

    def _judge(self) -> Numbers:
        if self.operation.draws is not None and not self._repeats():
            self.exam.add(
                "NOTE",
                "random-loss",
                "inferences at the same time were not compared: their noise is drawn outside torch "
                "(by Python or NumPy), from one stream for all threads.",
            )
            return {}
        try:
            trouble = self._trouble_of(2)
        except RuntimeError as error:  # of the step; those of inferences are caught
            report_later_backward(self.operation.flow, error)
            return {}
        if not trouble:
            return {}
        if any(self._trouble_of(1) for _ in range(_REPEATS)):
            self.exam.add(
                "FAIL",
                "race",
                f"{trouble}. Training writes to what inference reads (a class attribute, a global, "
                "a shared tensor).",
            )
        else:
            self.exam.add(
                "WARN",
                "race",
                f"{trouble}, but none alone: two inferences at the same time disturb each other. "
                "Let one thread serve this module.",
            )
        return {}

    def _repeats(self) -> bool:
        """Return whether an inference on another thread, with the recorded draws, is the first."""
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(self.subject.serve, self.subject.base)
        assert self.operation.served is not None
        is_raised = answer.exception() is not None  # then the check says so
        return is_raised or close(self.operation.served, answer.result(), self.operation.same)

    def _trouble_of(self, threads: int) -> str:
        """Run inferences on some threads during a step; return what went wrong, as a phrase."""
        subject = self.subject
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
        assert self.operation.served is not None
        served, same = self.operation.served, self.operation.same
        others = [answer for answer in results if not close(served, answer, same)]
        if not others:
            return ""
        apart_by = apart(served, others[0])
        return f"{len(others)} of {len(results)} inferences during a step differ: {apart_by}"

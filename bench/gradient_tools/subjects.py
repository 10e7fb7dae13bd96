"""The subjects of the comparison: cases of the tests and of the exam's open half, in one list."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bench.exam.case import Case, Question
from bench.exam.second_exam import open_questions
from gradient_check.tests.cases import Fault, Healthy
from gradient_check.tests.faults import FAULTS
from gradient_check.tests.healthy import HEALTHY

HEALTHY_KIND = "healthy"
_NO_GRADIENT = {
    *("graph-cut", "grad-none", "grad-zero", "no-gradient", "nothing-trainable", "unused"),
    *("unregistered", "dead", "flat", "leak-to-base", "inference-tensor", "thread-mode"),
}
_WRONG_GRADIENT = {"gradient-wrong", "grad-nonfinite", "loss-nonfinite", "stale-forward"}
_WRONG_GRADIENT |= {"alternating"}


@dataclass(frozen=True)
class Subject:
    """A maker of a case, and the answer that is right.

    Attributes:
        kind: of a fault `no gradient`, `wrong gradient` or `beside the gradient`, else `healthy`.
        names_line: whether a text names the line at fault; None where no line is to be named.
    """

    corpus: str
    name: str
    kind: str
    make: Callable[[], Case]
    names_line: Callable[[str], bool] | None = None


def subjects() -> list[Subject]:
    """Return all subjects: faults and healthy models of both corpora."""
    return [*_of_the_tests(), *map(_of_the_exam, open_questions())]


def _of_the_tests() -> Iterator[Subject]:
    cases: list[Fault | Healthy] = [*FAULTS, *HEALTHY]
    for number, case in enumerate(cases):
        kind, token = HEALTHY_KIND, None
        if isinstance(case, Fault):
            kind, token = _kind(case.code), case.token
        names_line = None if token is None else _holding(token)
        name = f"{number}: {case.name}"
        yield Subject("tests", name, kind, _maker(case), names_line)


def _maker(case: Fault | Healthy) -> Callable[[], Case]:
    return lambda: Case(case.make(), case.probe, case.loss, case.options)


def _of_the_exam(question: Question) -> Subject:
    kind = _kind(question.codes[0]) if question.is_fault else HEALTHY_KIND
    names_line = _naming(question.lines) if question.lines else None
    name = f"{question.group}: {question.name}"
    return Subject("exam", name, kind, question.make, names_line)


def _kind(code: str) -> str:
    if code in _NO_GRADIENT:
        return "no gradient"
    return "wrong gradient" if code in _WRONG_GRADIENT else "beside the gradient"


def _holding(token: str) -> Callable[[str], bool]:
    return lambda text: token in text


def _naming(lines: tuple[str, ...]) -> Callable[[str], bool]:
    """Return whether a text has one of `file.py:12:`, also as Python writes it in a traceback."""
    places = [line.rstrip(":").rpartition(":") for line in lines]
    written = [rf'{re.escape(file)}(:{number}:|", line {number},)' for file, _, number in places]
    pattern = re.compile("|".join(written))
    return lambda text: pattern.search(text) is not None

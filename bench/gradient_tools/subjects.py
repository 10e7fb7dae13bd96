"""The subjects of the comparison: cases of the tests and of the exam's open half, in one list."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from gradient_check.exam.case import Case, Question
from gradient_check.exam.sets import questions

HEALTHY_KIND = "healthy"
_PLACE = re.compile(r"([\w.]+\.py):(\d+):")
_NO_GRADIENT = {
    *("graph-cut", "grad-none", "grad-zero", "no-gradient", "nothing-trainable", "unused"),
    *("unregistered", "dead", "flat", "leak-to-base", "inference-tensor", "thread-mode"),
}
_WRONG_GRADIENT = {"gradient-wrong", "grad-nonfinite", "loss-nonfinite", "stale-forward"}
_WRONG_GRADIENT |= {"alternating"}


@dataclass(frozen=True)
class Subject:
    """A maker of a case, and the right answer.

    Attributes:
        kind: of a fault `no gradient`, `wrong gradient` or `beside the gradient`, else `healthy`.
        names_line: whether a text names the line at fault; None if no line is to be named.
    """

    corpus: str
    name: str
    kind: str
    make: Callable[[], Case]
    names_line: Callable[[str], bool] | None = None


def subjects() -> list[Subject]:
    """Return all subjects: faults and healthy models of the tests and of the second exam."""
    corpora = {"tests": "known", "exam": "second"}
    return [_subject(corpus, q) for corpus, name in corpora.items() for q in questions(name)]


def _subject(corpus: str, question: Question) -> Subject:
    kind = _kind(question.codes[0]) if question.is_fault else HEALTHY_KIND
    names_line = _naming(question.lines) if question.lines else None
    return Subject(corpus, f"{question.group}: {question.name}", kind, question.make, names_line)


def _kind(code: str) -> str:
    if code in _NO_GRADIENT:
        return "no gradient"
    return "wrong gradient" if code in _WRONG_GRADIENT else "beside the gradient"


def _naming(lines: tuple[str, ...]) -> Callable[[str], bool]:
    """Return whether a text has one of the lines; `file.py:12:` also as Python writes it."""
    pattern = re.compile("|".join(map(_written, lines)))
    return lambda text: pattern.search(text) is not None


def _written(line: str) -> str:
    place = _PLACE.fullmatch(line)
    if place is None:
        return re.escape(line)
    file, number = re.escape(place[1]), place[2]
    return rf'{file}(:{number}:|", line {number},)'

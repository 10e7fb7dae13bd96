"""Asks the questions of the examination, and counts the right answers."""

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from gradient_check.check import check_gradients
from gradient_check.exam.case import Case, Question
from gradient_check.findings.report import Finding, GradientReport
from gradient_check.phases.errors import ConfigError

_95_PERCENT = 1.96  # standard errors


@dataclass(frozen=True)
class Answer:
    """The answer to one question.

    Attributes:
        alarm: whether a failure was found, or a hidden parameter was named.
        code: whether one of the right codes was found, at its level.
        line: whether a right line was named; None if no line is expected.
        place: whether the right module was named; None if no module is expected.
        strange: the codes of warnings that were not expected; for a fault, none.
        untouched: whether the module was bit for bit as before.
    """

    group: str
    name: str
    fault: bool
    alarm: bool
    code: bool
    line: bool | None
    place: bool | None
    strange: tuple[str, ...]
    untouched: bool
    seconds: float
    found: tuple[str, ...]

    @property
    def right(self) -> bool:
        """Whether every part of the answer is right."""
        if not self.fault:
            return not self.alarm and not self.strange and self.untouched
        return self.code and False not in (self.line, self.place) and self.untouched


def ask(question: Question) -> Answer:
    """Check a question's module, and judge the report."""
    torch.manual_seed(0)
    case = question.make()
    before = _bits(case.module)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = _report(case)
    after = _bits(case.module)
    same = before.keys() == after.keys() and all(torch.equal(before[n], after[n]) for n in before)
    return judge(question, report, untouched=same)


def _report(case: Case) -> GradientReport:
    """Check a case; refused arguments count as a failure with another code."""
    try:
        return check_gradients(case.module, case.probe, case.loss, **case.options)
    except ConfigError as error:
        refused = Finding("refused", "FAIL", str(error))
        return GradientReport((refused,), (), {}, "cpu/fp32", 0.0)


def judge(question: Question, report: GradientReport, *, untouched: bool) -> Answer:
    """Compare a report with the right answer."""
    failures = [f for f in report.findings if f.level in ("FAIL", question.level)]
    strange = {f.code for f in report.findings if f.level == "WARN"} - {*question.warnings}
    right = [finding for finding in failures if finding.code in question.codes]
    hidden = question.unverified
    verdict = bool(failures)
    if hidden is not None:
        known = [f for f in report.findings if f.level == "FAIL" or f.code == "unverified"]
        verdict = any(hidden in finding.parameters for finding in known)
    is_fault = question.is_fault or hidden is not None
    return Answer(
        question.group,
        question.name,
        is_fault,
        verdict,
        verdict if hidden else bool(right),
        _names(question.lines, [finding.line for finding in right]),
        _names((question.place,) if question.place else (), [f.module for f in right]),
        () if is_fault else tuple(sorted(strange)),
        untouched,
        round(report.seconds, 2),
        tuple(str(finding) for finding in report.findings),
    )


def _names(parts: Sequence[str], texts: Sequence[str | None]) -> bool | None:
    """Return whether one of the parts stands in one of the texts; None if there is no part."""
    if not parts:
        return None
    return any(part in (text or "") for part in parts for text in texts)


def _bits(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return the bytes of each tensor that has any."""
    return {
        name: value.detach().clone().contiguous().reshape(-1).view(torch.uint8)
        for name, value in module.state_dict().items()
        if isinstance(value, torch.Tensor) and not (value.is_meta or is_lazy(value))
    }


def table(answers: Iterable[Answer]) -> list[dict[str, Any]]:
    """Return a row for each group, of faults and of healthy models."""
    rows: dict[tuple[str, bool], list[Answer]] = {}
    for answer in answers:
        rows.setdefault((answer.group, answer.fault), []).append(answer)
    return [
        _faults(group, own) if fault else _healthy(group, own)
        for (group, fault), own in rows.items()
    ]


def _faults(group: str, answers: list[Answer]) -> dict[str, Any]:
    lined = [answer for answer in answers if answer.line is not None]
    return {
        "set": group,
        "cases": len(answers),
        "alarm": sum(answer.alarm for answer in answers),
        "right code": sum(answer.code for answer in answers),
        "with a line": len(lined),
        "right line": sum(bool(answer.line) for answer in lined),
        "left untouched": sum(answer.untouched for answer in answers),
    }


def _healthy(group: str, answers: list[Answer]) -> dict[str, Any]:
    return {
        "set": group,
        "cases": len(answers),
        "passed": sum(not answer.alarm for answer in answers),
        "no unexpected warning": sum(not (a.alarm or a.strange) for a in answers),
        "left untouched": sum(answer.untouched for answer in answers),
    }


def shares(answers: Sequence[Answer]) -> dict[str, str]:
    """Return the shares of right answers over all groups, each with its 95 % interval."""
    faults = [answer for answer in answers if answer.fault]
    lined = [answer for answer in faults if answer.line is not None]
    healthy = [answer for answer in answers if not answer.fault]
    counted = {
        "alarm": [answer.alarm for answer in faults],
        "right code": [answer.code for answer in faults],
        "right line": [bool(answer.line) for answer in lined],
        "healthy passed": [not answer.alarm for answer in healthy],
    }
    return {name: _share(rights) for name, rights in counted.items() if rights}


def _share(rights: Sequence[bool]) -> str:
    low, high = interval(sum(rights), len(rights))
    share = 100 * sum(rights) / len(rights)
    return f"{sum(rights)}/{len(rights)} ({share:.1f} %, {100 * low:.1f} to {100 * high:.1f})"


def interval(right: int, count: int) -> tuple[float, float]:
    """Return the 95 % interval of a share (Wilson 1927)."""
    z, share = _95_PERCENT, right / count
    middle = share + z * z / (2 * count)
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return (middle - half) / (1 + z * z / count), (middle + half) / (1 + z * z / count)


def wrong(answers: Iterable[Answer]) -> list[dict[str, Any]]:
    """Return the wrong answers, with their findings."""
    return [asdict(answer) for answer in answers if not answer.right]

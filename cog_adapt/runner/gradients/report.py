"""The results of the gradient self-test, as values and as text."""

from collections.abc import Mapping, Sized
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from cog_adapt.runner.errors import GradientFlowError

Level = Literal["FAIL", "WARN", "NOTE"]
Status = Literal["passed", "warned", "failed", "skipped"]
_MOST_NAMES = 4


@dataclass(frozen=True)
class Place:
    """The position of a fault.

    Attributes:
        module: path and class.
        line: `file:line: code`; of a block without gradients, its head.
        inside: the line in that block, if there is one.
    """

    module: str | None = None
    line: str | None = None
    inside: str | None = field(default=None, compare=False)


NOWHERE = Place()


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong (FAIL), worth knowing (WARN), or as the caller declared (NOTE).

    Attributes:
        code: the kind, for instance `graph-cut`; stable, for programs.
        message: what was found, the limit and the remedy.
        parameters: the parameters concerned.
        module: path and class of the module at fault, if known.
        line: `file:line: code` of the fault, if known.
    """

    code: str
    level: Level
    message: str
    parameters: tuple[str, ...] = ()
    module: str | None = None
    line: str | None = None

    def __str__(self) -> str:
        where = ", ".join(part for part in (self.module, self.line) if part)
        return f"{self.level} {self.code}: {self.message}" + (f" Where: {where}" if where else "")


@dataclass(frozen=True)
class Check:
    """One step of the self-test: how it ended, how long it took, and what it measured."""

    name: str
    status: Status
    seconds: float
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class GradientReport:
    """The outcome of a gradient self-test.

    Attributes:
        findings: the findings, worst first.
        checks: the steps in their order.
        gradient_norms: the L2 norm of each trained parameter's gradient.
        precision: device and compute dtype.
        seconds: wall time of the whole test.
    """

    findings: tuple[Finding, ...]
    checks: tuple[Check, ...]
    gradient_norms: Mapping[str, float]
    precision: str
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether no check failed; warnings do not count."""
        return not any(finding.level == "FAIL" for finding in self.findings)

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of all findings, each once."""
        return tuple(dict.fromkeys(finding.code for finding in self.findings))

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain dicts, lists, strings and numbers."""
        return {"passed": self.passed, **asdict(self)}

    def raise_if_failed(self) -> None:
        """Raise GradientFlowError, whose message is this report, unless the test passed."""
        if not self.passed:
            raise GradientFlowError(str(self))

    def __str__(self) -> str:
        verdict = "passed" if self.passed else "FAILED"
        ran = sum(check.status != "skipped" for check in self.checks)
        head = (
            f"gradient self-test {verdict}: {len(self.gradient_norms)} trained tensors with a "
            f"gradient, {ran} of {len(self.checks)} checks run, {self.precision}, "
            f"{self.seconds:.2f} s"
        )
        return "\n".join([head, *(f"  {finding}" for finding in self.findings)])


def count(names: Sized, noun: str = "parameter") -> str:
    """Return `1 parameter`, `2 parameters`."""
    return f"{len(names)} {noun}" + ("" if len(names) == 1 else "s")


def some(names: list[str] | tuple[str, ...]) -> str:
    """Return the first few names, and the number of the others."""
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")

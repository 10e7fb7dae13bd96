"""The results of the gradient self-test, as values and as text."""

from collections.abc import Iterator, Mapping, Sized
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from gradient_check.phases.errors import GradientFlowError

Level = Literal["FAIL", "WARN", "NOTE"]
Status = Literal["passed", "warned", "failed", "skipped"]
_MOST_NAMES = 4
# codes of findings about gradients that exist, but are not proved
_UNPROVED = ("unverified", "unreached", "rough")


@dataclass(frozen=True)
class Place:
    """The position of a fault.

    Attributes:
        module: path and class.
        line: `file:line: code`; of a block without gradients, its head.
        inside: the line in that block, if there is one.
        around: files and lines of all calls on the way there, and of their functions.
        owners: the paths of all modules that ran, the innermost first.
    """

    module: str | None = None
    line: str | None = None
    inside: str | None = field(default=None, compare=False)
    around: tuple[tuple[str, int], ...] = field(default=(), compare=False)
    owners: tuple[str, ...] = field(default=(), compare=False)


NOWHERE = Place()


@dataclass(frozen=True)
class Finding:
    """A fault (FAIL), a hint (WARN), or a property that the caller declared (NOTE).

    Attributes:
        code: the kind, for instance `graph-cut`; stable, for programs.
        message: the finding, the limit and the remedy.
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
    """One step of the self-test: its end, its duration, and its measurements.

    Attributes:
        reason: of a skipped check.
    """

    name: str
    status: Status
    seconds: float
    numbers: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""


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

    @property
    def unverified(self) -> tuple[str, ...]:
        """The parameters whose gradients exist but were not verified, each once."""
        named = (f.parameters for f in self.findings if f.code in _UNPROVED)
        return tuple(dict.fromkeys(name for names in named for name in names))

    @property
    def left_out(self) -> dict[str, str]:
        """The skipped checks, each with the reason."""
        return {check.name: check.reason for check in self.checks if check.status == "skipped"}

    def strictly(self) -> "GradientReport":
        """Return this report, or, if it passed with gaps, a failed report that names the gaps."""
        gaps = tuple(self._gaps()) if self.passed else ()
        return replace(self, findings=gaps + self.findings)

    def _gaps(self) -> Iterator[Finding]:
        if self.left_out:
            checks = "; ".join(f"{name} ({why})" for name, why in self.left_out.items())
            yield Finding(
                "left-out",
                "FAIL",
                f"{count(self.left_out, 'check')} could not run: {checks}. Remove the reason, or "
                "test without `strict`.",
            )
        if self.unverified:
            yield Finding(
                "unverified-strict",
                "FAIL",
                f"{count(self.unverified)} unverified: {some(self.unverified)}. Give a larger or "
                "another probe, test in float32, or test without `strict`.",
                self.unverified,
            )

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain dicts, lists, strings and numbers."""
        gaps = {"unverified": self.unverified, "left_out": self.left_out}
        return {"passed": self.passed, **gaps, **asdict(self)}

    def raise_if_failed(self) -> None:
        """Raise GradientFlowError, whose message is this report, unless the test passed."""
        if not self.passed:
            raise GradientFlowError(str(self))

    def __str__(self) -> str:
        return "\n".join([self._verdict(), *(f"  {finding}" for finding in self.findings)])

    def _verdict(self) -> str:
        """Return the first line; for a passed test, also its gaps."""
        checks = len(self.checks)
        ran = f"{checks - len(self.left_out)} of {checks} checks run"
        tensors = f"{len(self.gradient_norms)} trained tensors with a gradient"
        if self.passed:
            tensors += f", {len(self.unverified)} unverified"
            ran += f" (left out: {', '.join(self.left_out)})" if self.left_out else ""
        verdict = "passed" if self.passed else "FAILED"
        facts = f"{tensors}, {ran}, {self.precision}, {self.seconds:.2f} s"
        return f"gradient self-test {verdict}: {facts}"


def count(names: Sized, noun: str = "parameter") -> str:
    """Return `1 parameter`, `2 parameters`."""
    return f"{len(names)} {noun}" + ("" if len(names) == 1 else "s")


def some(names: list[str] | tuple[str, ...]) -> str:
    """Return the first few names, and the number of the others."""
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")

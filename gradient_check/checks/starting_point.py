"""Step 9 at the module's own values: parameters that no step can move from there.

A factor whose partner is 0 has no gradient, and so has the partner if the factor is 0 too (both of
LoRA's matrices, say). Perturbed values hide that.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor

from gradient_check.checks.flow import GradientFlow
from gradient_check.diagnosis.definitions import zeroed
from gradient_check.findings.examination import Numbers
from gradient_check.findings.report import count, some

_ROUNDS = 2
_MOST_TRIED = 4


class StartingPoint:
    """Judges the gradients of a flow's replica at the values that it starts from."""

    def __init__(self, flow: GradientFlow) -> None:
        self.flow = flow
        self.subject = flow.subject
        own = dict(self.subject.template.named_parameters())
        self.values = {name: own[name].detach() for name in self.subject.names}

    def judge(self) -> Numbers:
        """Fail parameters whose gradients are 0 at the start, and stay so wherever others go.

        A large module is not judged: there is no memory for a copy of its values.
        """
        zeros = [name for name, value in self.values.items() if not bool(value.any())]
        if len(zeros) < 2:
            return {}
        if self.subject.is_large:
            self.flow.exam.leave_out("a large module's own values are not copied")
            return {}
        with self._at_the_start():
            stuck = self._stuck()
            holding = [name for name in zeros if name in stuck][:_MOST_TRIED]
            if not any(self._wakes_others(name, stuck) for name in holding):
                return {"stuck": 0}
        self.flow.exam.add(
            "FAIL",
            "grad-zero",
            f"{count(stuck, 'gradient')} exactly 0 at the module's own values, whatever the "
            f"others are: {some(stuck)}. Factors that all begin at 0 never leave it: start one of "
            "them elsewhere.",
            parameters=stuck,
            module=self.flow.diagnosis.forward.owner(stuck),
            line=self._line([name for name in zeros if name in stuck] + stuck),
        )
        return {"stuck": len(stuck)}

    def _line(self, names: list[str]) -> str | None:
        """Return the line that makes one of these begin at 0; else the line that uses the first."""
        lines = (zeroed(self.subject.replica, name) for name in names)
        found = next(filter(None, lines), None)
        return found or self.flow.diagnosis.forward.first_use(names[0]).line

    @contextmanager
    def _at_the_start(self) -> Iterator[None]:
        own = self.subject.parameters
        kept = {name: (p.detach().clone(), p.grad) for name, p in own.items()}
        try:
            self._put(self.values)
            yield
        finally:
            for name, (values, gradient) in kept.items():
                own[name].detach().copy_(values)
                own[name].grad = gradient

    def _put(self, names: dict[str, Tensor]) -> None:
        for name, value in names.items():
            self.subject.parameters[name].detach().copy_(value)

    def _stuck(self) -> list[str]:
        """Return the parameters without gradient here, and wherever those with one may go."""
        stuck = [name for name, norm in self.flow.gradient_norms.items() if norm > 0]
        for number in range(1, _ROUNDS + 1):
            still = self._zero_of(stuck) if stuck else []
            self.subject.perturb([n for n in stuck if n not in still], salt=number)
            stuck = still
        return self._zero_of(stuck) if stuck else []

    def _wakes_others(self, name: str, stuck: list[str]) -> bool:
        """Return whether others get a gradient once this one is moved by itself."""
        kept = self.subject.parameters[name].detach().clone()
        self.subject.perturb([name], salt=_ROUNDS + 1)
        others = [each for each in stuck if each != name]
        woken = len(self._zero_of(others)) < len(others)
        self._put({name: kept})
        return woken

    def _zero_of(self, names: list[str]) -> list[str]:
        """Return those of some parameters whose gradients are all 0 at the present values."""
        own = self.subject.parameters
        for parameter in own.values():
            parameter.grad = None
        self.subject.gradients()
        found = {name: own[name].grad for name in names}
        return [n for n, g in found.items() if g is not None and not bool(g.to_dense().any())]

"""The dependence test: moves parameters without a gradient; does the loss depend on them?

A missing gradient alone does not distinguish a cut graph from an unused parameter.
"""

import math
from collections.abc import Callable, Sequence

from gradient_check.checks.flow import GradientFlow
from gradient_check.instruments.differences import SIXTEEN_BIT, Limits
from gradient_check.instruments.subject import Subject

_FRACTIONS = (0.05, 0.5)
_LIMIT = 1e-5
_CLEAR = 30  # times the rounding
_LIMIT_16_BIT = 1e-3


class LossDependence:
    """Moves parameters of the replica, runs a forward, and puts them back.

    The state is the loss before, for comparison with the loss after each move.

    Args:
        subject: the subject of the replica.
        loss: the loss before; if NaN, a forward measures it.
        limits: of the precision.
        spread: how far losses of one seed differ.
        rounding: returns how far rounding moves the loss; called if the loss seems to move.
    """

    def __init__(
        self,
        subject: Subject,
        loss: float,
        limits: Limits,
        spread: float,
        rounding: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.subject = subject
        self.loss = subject.forward() if math.isnan(loss) else loss
        share = _LIMIT_16_BIT if limits is SIXTEEN_BIT else _LIMIT
        self.limit = share * abs(self.loss) + 3 * spread
        self.rounding = rounding

    @classmethod
    def of(cls, flow: GradientFlow) -> "LossDependence":
        """Make the test for the subject, the loss and the limits of a flow."""

        def rounding() -> float:
            return flow.loss_rounding.while_held(flow.stand_ins)

        return cls(flow.subject, flow.loss, flow.limits, flow.spread, rounding)

    def dependent(self, names: Sequence[str]) -> list[str]:
        """Return the parameters that the loss depends on."""
        if not names or not self.depends(names):
            return []
        if len(names) == 1:
            return list(names)
        middle = len(names) // 2
        return self.dependent(names[:middle]) + self.dependent(names[middle:])

    def is_asleep(self, name: str) -> bool:
        """Return whether a small move of a parameter leaves the loss unchanged."""
        return not self._moves_by([name], _FRACTIONS[0])

    def depends(self, names: Sequence[str]) -> bool:
        """Return whether the loss depends on any of these parameters: two forwards at most."""
        return any(self._moves_by(names, fraction) for fraction in _FRACTIONS)

    def _moves_by(self, names: Sequence[str], fraction: float) -> bool:
        with self.subject.moved(names, fraction):
            moved = abs(self.subject.forward() - self.loss)
        if moved <= self.limit:
            return False
        return not moved <= _CLEAR * self.rounding()  # this form also counts NaN as moved

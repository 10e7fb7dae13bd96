"""Step 7, after the forward: checks that the same seed and values give the same loss.

Else differences would measure something else than the gradient. A forward that computes another
function from call to call is told from noise: its losses repeat, or are the same once the numbers
that it keeps are put back.
"""

import time
from collections.abc import Collection, Sequence

from gradient_check.checks.differing_calls import first_difference
from gradient_check.checks.flow import GradientFlow
from gradient_check.findings.examination import Numbers
from gradient_check.findings.report import Place, some
from gradient_check.instruments.plain_state import PlainState, is_number

_CALLS = 9
_LONGEST_PERIOD = 4
_REPEATS = 3
_ELSEWHERE = 5


class Repeatability:
    """Judges whether a flow's forward repeats itself."""

    def __init__(self, flow: GradientFlow) -> None:
        self.flow = flow
        self.subject = flow.subject
        self.exam = flow.exam
        self.scale = 1.0

    def judge(self) -> Numbers:
        """Fail a forward that alternates, warn of noise; hold still what it keeps of its inputs."""
        before = PlainState(self.subject.replica)
        self.scale = max(self.flow.scale, 1e-30)
        began = time.thread_time()  # of this thread alone: the blocks do not depend on the load
        losses = [self.flow.loss, self.subject.forward()]
        self.flow.forward_seconds = time.thread_time() - began
        changed = before.changed()
        if changed or not self.subject.is_large:  # two calls apart, what alternates is the same
            losses.append(self.subject.forward())
        relative = self._spread(losses)
        is_suspect = relative > self.flow.limits.noise or self.exam.has("nondeterministic")
        if is_suspect and self._explained():
            return {"spread": relative}
        self.exam.grounds.add("repeatable")
        if relative > self.flow.limits.noise:
            self.exam.add(
                "WARN",
                "nondeterministic",
                f"two training forwards with the same seed differ by {relative:.1e} of the loss; "
                "below that, wrong gradients cannot be seen.",
            )
        self.flow.spread = relative * self.scale
        return {"spread": relative}

    def _spread(self, losses: Sequence[float]) -> float:
        return (max(losses) - min(losses)) / self.scale

    def _explained(self) -> bool:
        """Report, or hold still, what the forward keeps from call to call; False: it is noise."""
        start = PlainState(self.subject.replica)
        losses = [self.subject.forward() for _ in range(_CALLS)]
        kept = self._kept(start)
        numbers = [slot for slot in kept if is_number(self.subject.replica, slot)]
        differ = self._differ(losses)
        if differ and numbers and self._is_still_with(start, numbers):
            self._report(numbers[0])
        elif len(kept) > len(numbers) and self._is_still_with(start, kept):
            self._hold(start, kept)
        elif differ and self._period(losses):
            self._report(None)
        else:
            return False
        return True

    def _kept(self, start: PlainState) -> list[tuple[str, str]]:
        """Return what a forward leaves otherwise, where the weights are others."""
        with self.subject.moved(self.subject.names, salt=_ELSEWHERE):
            self.subject.forward()
            return start.changed()

    def _differ(self, losses: Sequence[float]) -> bool:
        return not self._spread(losses) <= self.flow.limits.noise  # NaN counts as different

    def _is_still_with(self, start: PlainState, slots: Collection[tuple[str, str]]) -> bool:
        """Return whether forwards agree once these attributes are put back before each."""
        losses = []
        for _ in range(_REPEATS):
            start.put_back(slots)
            losses.append(self.subject.forward())
        return not self._differ(losses)

    def _period(self, losses: Sequence[float]) -> int | None:
        """Return after how many calls the losses repeat, if they do; those of noise never do."""
        for period in range(2, _LONGEST_PERIOD + 1):
            pairs = zip(losses, losses[period:], strict=False)
            if not any(self._differ(pair) for pair in pairs):
                return period
        return None

    def _report(self, slot: tuple[str, str] | None) -> None:
        forward, names = self.flow.diagnosis.forward, self.flow.diagnosis.names
        place = first_difference(forward.record()[0], forward.record()[0], names)
        kept = ""
        if slot is not None:
            path = ".".join(filter(None, slot))
            kept = f" with what it keeps in `{path}`"
            part = self.subject.replica.get_submodule(slot[0])
            place = Place(names.get(id(part)), place.line)
        self.exam.add(
            "FAIL",
            "alternating",
            f"the forward computes another function from call to call{kept}, at the same values, "
            "inputs and seed: a gradient belongs to the call that made it, or, where backward "
            "recomputes a part, to none. Pass the step as an argument, or change it between steps "
            "outside the forward.",
            module=place.module,
            line=place.line,
        )

    def _hold(self, start: PlainState, slots: Sequence[tuple[str, str]]) -> None:
        """Put what is kept of the inputs back before each forward; take the gradients again."""
        names = [".".join(filter(None, slot)) for slot in slots]
        self.exam.add(
            "WARN",
            "nondeterministic",
            f"the forward goes on from what an earlier call left in {some(names)}; the test holds "
            "it still. Reset it before each sequence, lest one request be answered with another's.",
        )
        self.subject.hold_state(lambda: start.put_back(slots))
        self.flow.loss = self.subject.gradients(self.flow.observe)
        self.exam.grounds.add("repeatable")

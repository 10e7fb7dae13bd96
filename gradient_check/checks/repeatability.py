"""Step 7, after the forward: checks that the same seed and values give the same loss.

Otherwise differences would not measure the gradient. A forward that alternates between functions
differs from noise: its losses repeat, or are equal once its kept numbers are restored.
"""

import time
from collections.abc import Callable, Collection, Sequence

from gradient_check.checks.differing_calls import first_difference
from gradient_check.checks.flow import GradientFlow
from gradient_check.findings.examination import Numbers
from gradient_check.findings.report import Place, some
from gradient_check.instruments.plain_state import PlainState, is_number

_CALLS = 9
_LONGEST_PERIOD = 4
_REPEATS = 3
_ELSEWHERE = 5


def judge_repeatability(flow: GradientFlow) -> Numbers:
    """Report a forward that alternates as a failure, and noise as a warning.

    State that a forward takes from its inputs is restored before each later forward.
    """
    before = PlainState(flow.subject.replica)
    scale = max(flow.scale, 1e-30)
    # this thread's own time, so that the blocks do not depend on the load
    began = time.thread_time()
    losses = [flow.loss, flow.subject.forward()]
    flow.forward_seconds = time.thread_time() - began
    changed = before.changed()
    # a forward that alternates gives the same loss two calls later
    if changed or not flow.subject.is_large:
        losses.append(flow.subject.forward())
    relative = _spread(losses, scale)
    is_suspect = relative > flow.limits.noise or flow.exam.has("nondeterministic")
    if is_suspect and _explained(flow, scale):
        return {"spread": relative}
    flow.exam.grounds.add("repeatable")
    if relative > flow.limits.noise:
        flow.exam.add(
            "WARN",
            "nondeterministic",
            f"two training forwards with the same seed differ by {relative:.1e} of the loss; "
            "below that, wrong gradients cannot be seen.",
        )
    flow.spread = relative * scale
    return {"spread": relative}


def _spread(losses: Sequence[float], scale: float) -> float:
    return (max(losses) - min(losses)) / scale


def _explained(flow: GradientFlow, scale: float) -> bool:
    """Report, or hold still, the state that lasts from call to call; return False for noise."""

    def differ(losses: Sequence[float]) -> bool:
        # this form also counts NaN as different
        return not _spread(losses, scale) <= flow.limits.noise

    def is_still_with(slots: Collection[tuple[str, str]]) -> bool:
        return not differ(_losses_with(flow, start, slots))

    start = PlainState(flow.subject.replica)
    losses = [flow.subject.forward() for _ in range(_CALLS)]
    kept = _kept(flow, start)
    numbers = [slot for slot in kept if is_number(flow.subject.replica, slot)]
    if differ(losses) and numbers and is_still_with(numbers):
        _report(flow, numbers[0])
    elif len(kept) > len(numbers) and is_still_with(kept):
        _hold(flow, start, kept)
    elif differ(losses) and _period(losses, differ):
        _report(flow, None)
    else:
        return False
    return True


def _kept(flow: GradientFlow, start: PlainState) -> list[tuple[str, str]]:
    """Return the attributes that a forward changes at other weights."""
    with flow.subject.moved(flow.subject.names, salt=_ELSEWHERE):
        flow.subject.forward()
        return start.changed()


def _losses_with(
    flow: GradientFlow, start: PlainState, slots: Collection[tuple[str, str]]
) -> list[float]:
    """Return the losses of forwards, with these attributes restored before each."""
    losses = []
    for _ in range(_REPEATS):
        start.put_back(slots)
        losses.append(flow.subject.forward())
    return losses


def _period(losses: Sequence[float], differ: Callable[[Sequence[float]], bool]) -> int | None:
    """Return after how many calls the losses repeat, if they do; with noise they never do."""
    for period in range(2, _LONGEST_PERIOD + 1):
        pairs = zip(losses, losses[period:], strict=False)
        if not any(differ(pair) for pair in pairs):
            return period
    return None


def _report(flow: GradientFlow, slot: tuple[str, str] | None) -> None:
    forward, names = flow.diagnosis.forward, flow.diagnosis.names
    place = first_difference(forward.record()[0], forward.record()[0], names)
    kept = ""
    if slot is not None:
        path = ".".join(filter(None, slot))
        kept = f" by its state in `{path}`"
        part = flow.subject.replica.get_submodule(slot[0])
        place = Place(names.get(id(part)), place.line)
    flow.exam.add(
        "FAIL",
        "alternating",
        f"the forward computes another function from call to call{kept}, at the same values, "
        "inputs and seed: a gradient belongs to the call that made it, or, if backward recomputes "
        "a part, to no call. Pass the step as an argument, or change it between steps outside the "
        "forward.",
        module=place.module,
        line=place.line,
    )


def _hold(flow: GradientFlow, start: PlainState, slots: Sequence[tuple[str, str]]) -> None:
    """Restore, before each forward, the state taken from inputs; take the gradients again."""
    names = [".".join(filter(None, slot)) for slot in slots]
    flow.exam.add(
        "WARN",
        "nondeterministic",
        f"the forward continues from the values that an earlier call left in {some(names)}; the "
        "test restores them before each forward. Reset these values before each sequence; "
        "otherwise one request is answered with another's.",
    )
    flow.subject.hold_state(lambda: start.put_back(slots))
    flow.loss = flow.subject.gradients(flow.observe)
    flow.exam.grounds.add("repeatable")

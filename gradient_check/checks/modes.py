"""Step 1: checks that the phases allow gradients on this thread, and the modes of an entry."""

from collections.abc import Callable

from torch import nn

from gradient_check.checks.entry import judge_entry
from gradient_check.findings.examination import Examination, Numbers
from gradient_check.phases.modes import ThreadModes, run_adaptation


def judge_modes(exam: Examination, entry: Callable[..., object] | None) -> Numbers:
    """Check that the phases allow gradients on this thread, whatever mode surrounds the call.

    Args:
        exam: the examination that gets the findings.
        entry: a function that a server calls; None if no function is given.
    """
    wanted = ThreadModes(grad=True, inference=False, autocast=False)
    found = run_adaptation(lambda _: ThreadModes.current(), nn.PReLU(), ())
    if found != wanted:
        exam.add("FAIL", "thread-mode", f"the adaptation phase is {found}; it must be {wanted}.")
    if entry is not None:
        judge_entry(exam, entry)
    return {}

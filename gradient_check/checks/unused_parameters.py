"""Step 9 for parameters that are not in the graph: forgotten, or left out by this draw."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from gradient_check.checks.flow import GradientFlow
from gradient_check.checks.peft_advice import advice_for_unused
from gradient_check.diagnosis.copies import Copies
from gradient_check.diagnosis.retention import is_made_before, line_that_replaces, place_of_keeping
from gradient_check.diagnosis.unused_lines import Explanation, UnusedLines
from gradient_check.findings.report import Place, count, some
from gradient_check.instruments.graph import reached_leaves
from gradient_check.instruments.larger_probes import variant
from gradient_check.instruments.ownership import in_minority
from gradient_check.instruments.subject import Subject
from gradient_check.phases.randomness import derive_seed

_MOST_DRAWS = 12
_TIMES = (1, 4, 16, 64)  # the probe's rows times these, in turn
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")
_FAR = 1.0  # times the weights' spread
_ADVICE = "Train fewer (`trainable`), or name them in `unused`."
OTHER_MODULE = (
    "the loss computes with a module other than its argument, so no parameter of the given module "
    "can be trained. Use the argument `module`, not `self.model` or a global."
)


def judge_unused_parameters(flow: GradientFlow, names: list[str]) -> None:
    """Report parameters that the loss ignores."""
    _report_unused(flow, _never_reached(flow, names))


def _never_reached(flow: GradientFlow, names: list[str]) -> list[str]:
    """Warn of names that other draws reach, or that are a library's; return the rest."""
    if len(names) == len(flow.subject.names):
        return names
    lasting = _beyond_draws(flow, names)
    missed = [name for name in names if name not in lasting]
    alike = _twins(lasting, missed)
    _warn_unreached(flow, missed)
    _warn_never_reached(flow, alike)
    lasting = [name for name in lasting if name not in alike]
    others = [name for name in flow.subject.names if name not in names]
    library = in_minority(flow.subject.replica, lasting, others)
    if library:
        flow.exam.add(
            "WARN",
            "unused",
            f"{count(library)} of a library's model without effect on the loss as it is used "
            f"here: {some(library)}. Name them in `unused`, or leave them out of `trainable`.",
            parameters=library,
            module=flow.diagnosis.forward.owner(library),
        )
    return [name for name in lasting if name not in library]


def _beyond_draws(flow: GradientFlow, names: list[str]) -> list[str]:
    """Return the parameters that stay outside the graph under other seeds, values and rows."""
    lasting = list(names)
    for number in range(_MOST_DRAWS):
        reached = _reached_elsewhere(flow.subject, number, 0) if lasting else set()
        lasting = [name for name in lasting if name not in reached]
    others = [name for name in flow.subject.names if name not in lasting]
    for number in range(1, _MOST_DRAWS):  # larger probes reach rare parameters
        rare = _twins(lasting, others)
        times = _TIMES[number % len(_TIMES)]
        reached = _reached_elsewhere(flow.subject, number, times) if rare else set()
        lasting = [name for name in lasting if name not in rare or name not in reached]
    return lasting


def _twins(names: Sequence[str], missed: Sequence[str]) -> list[str]:
    """Return the names that equal the path of a missed parameter except for numbers.

    The experts of one list count alike: if some draws reach one expert, the others of its list are
    rare too, rather than unused.
    """
    kinds = {_NUMBER.sub("*", name) for name in missed}
    return [name for name in names if _NUMBER.sub("*", name) in kinds]


def _warn_never_reached(flow: GradientFlow, names: list[str]) -> None:
    if names:
        flow.exam.add(
            "WARN",
            "unreached",
            f"no draw of larger probes reaches {count(names)}: {some(names)}. Some draws reach "
            "others of their list. The named parameters were not verified; give a larger probe or "
            "inputs that are routed there.",
            parameters=names,
            module=flow.diagnosis.forward.owner(names),
        )


def _warn_unreached(flow: GradientFlow, names: list[str]) -> None:
    if names:
        flow.exam.add(
            "WARN",
            "unreached",
            f"this probe does not reach {count(names)}: {some(names)}. Other draws (of routes, of "
            "skipped layers) do. These parameters were not verified; give a larger probe.",
            parameters=names,
            module=flow.diagnosis.forward.owner(names),
        )


def _report_unused(flow: GradientFlow, names: list[str]) -> None:
    """Report the first reason for which the loss can be shown to ignore parameters."""
    if not names:
        return
    if len(names) == len(flow.subject.names):
        place = flow.diagnosis.forward.other_module()
        if place.line is not None:
            _report_other_module(flow, names, place)
            return
    copies = Copies(flow.diagnosis)
    place = copies.uses_original()
    if place.line is not None:
        _report_original(flow, names, place)
        return
    place = copies.cached(names)
    if place.line is not None:
        _report_cache(flow, names, replace(place, line=_keeping(flow, names) or place.line))
        return
    copy, place = copies.kept(names)
    reason = UnusedLines(flow.diagnosis).explain(names[0])
    if copy:
        reason = Explanation(copy, place.line)
    advice = advice_for_unused(flow.subject.replica, names)
    flow.exam.add(
        "FAIL",
        "unused",
        f"{count(names)} without effect on the loss, even when moved by half the "
        f"spread: {some(names)}.{reason.text} {advice or _ADVICE}",
        parameters=names,
        module=flow.diagnosis.forward.owner(names),
        line=reason.line,
    )


def _keeping(flow: GradientFlow, names: list[str]) -> str | None:
    """Return the line that stores a value of these parameters, or replaces one of them."""
    forward = flow.diagnosis.forward
    line = line_that_replaces(flow.subject, names)
    return line or place_of_keeping(forward, is_made_before).line


def _report_other_module(flow: GradientFlow, names: list[str], place: Place) -> None:
    flow.exam.add(
        "FAIL", "unused", OTHER_MODULE, parameters=names, module=place.module, line=place.line
    )


def _report_original(flow: GradientFlow, names: list[str], place: Place) -> None:
    flow.exam.add(
        "FAIL",
        "leak-to-base",
        f"{count(names)} not used by the replica, which computes with the "
        f"original's: {some(names)}. Something inside holds a reference to the original "
        "(a closure, a lambda, a hook); take the module from `self` instead.",
        parameters=names,
        module=place.module,
        line=place.line,
    )


def _report_cache(flow: GradientFlow, names: list[str], place: Place) -> None:
    flow.exam.add(
        "FAIL",
        "stale-forward",
        f"only the first forward uses {some(names)}: later forwards, also in training, use a value "
        "that the first stored. Store no value computed from weights between calls.",
        parameters=names,
        module=place.module,
        line=place.line,
    )


def _reached_elsewhere(subject: Subject, number: int, times: int) -> set[str]:
    """Return the parameters in the graph of a forward with another seed, other rows and values."""
    here = subject.probe
    rows = variant(here, number, times=times) if times else here
    reached = _reached_with(subject, number, rows)
    if not reached and times:  # a loss may fix the number of rows
        reached = _reached_with(subject, number, variant(here, number, times=1))
    return reached


def _reached_with(subject: Subject, number: int, probe: Any) -> set[str]:  # noqa: ANN401
    """Return the parameters in the graph of a forward with this probe; none if it raises."""
    here, subject.probe = subject.probe, probe
    reached: dict[int, Tensor] = {}
    kept, subject.seed = subject.seed, derive_seed(subject.options.seed, "elsewhere", number)
    subject.loss.observer = lambda losses: reached.update(reached_leaves(losses))
    try:
        with subject.moved(subject.names, _FAR, number):
            subject.forward()
    except Exception:  # noqa: BLE001 - the code under test may raise anything
        reached.clear()
    finally:
        subject.seed, subject.loss.observer, subject.probe = kept, None, here
    return {name for name, parameter in subject.parameters.items() if id(parameter) in reached}

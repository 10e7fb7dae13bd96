"""Reports parameters in the graph that are missing from the module: no optimizer has them."""

from collections.abc import Callable, Iterable, Mapping

from torch import Tensor, nn

from gradient_check.checks.flow import GradientFlow
from gradient_check.diagnosis.definitions import assigned, assigned_near, holder
from gradient_check.findings.report import NOWHERE, Place, count, some
from gradient_check.instruments.event import RecordedCall
from gradient_check.instruments.graph import reached_leaves
from gradient_check.instruments.held_tensors import unregistered


def judge_strangers(flow: GradientFlow) -> None:
    """Report leaves with a gradient that neither the module nor its loss registers."""
    subject, module = flow.subject, flow.guard.module
    loss: object = subject.loss.loss
    holders = [subject.replica, subject.base, module]
    holders += [loss] if isinstance(loss, nn.Module) else []
    known = {id(p) for each in holders for p in each.parameters()}
    late = _late(holders[:2], module)
    strangers = {i: leaf for i, leaf in flow.reached.items() if i not in known or i in late}
    if any(not isinstance(leaf, nn.Parameter) for leaf in strangers.values()):
        strangers = _lasting(flow, strangers)
    if not strangers:
        return
    paths: dict[int, str] = {}
    for each in reversed(holders):
        paths |= unregistered(each)
    paths |= late
    hidden = {i: paths[i] for i in strangers if i in paths}
    if hidden:
        _report_hidden(flow, hidden, are_late=set(hidden) <= set(late))
    else:
        uses = _uses_of(flow, lambda reached: reached - known)
        place = uses[0].entry(flow.diagnosis.names) if uses else NOWHERE
        flow.exam.add(
            "WARN",
            "unregistered",
            f"{count(strangers)} with a gradient in neither the module nor a loss module (globals, "
            "closures?). Pass them to your optimizer.",
            module=place.module,
            line=place.line,
        )


def _late(copies: Iterable[nn.Module], module: nn.Module) -> dict[int, str]:
    """Return, by id, the names of parameters registered in a forward: no optimizer has them."""
    known = dict(module.named_parameters(remove_duplicate=False))
    named = (pair for copy in copies for pair in copy.named_parameters())
    return {id(parameter): name for name, parameter in named if name not in known}


def _report_hidden(flow: GradientFlow, hidden: Mapping[int, str], *, are_late: bool) -> None:
    """Report parameters that the module holds without registering them."""
    subject, names = flow.subject, sorted(set(hidden.values()))
    everything = {n for n, p in flow.guard.module.named_parameters() if p.is_floating_point()}
    place = _origin_of(flow, hidden)
    how = (
        "registered by the forward, after the optimizer is made"
        if are_late
        else "registered nowhere"
    )
    flow.exam.add(
        "FAIL" if everything.issubset(subject.names) else "WARN",
        "unregistered",
        f"{count(names)} with a gradient but {how}: {some(names)}. No "
        "optimizer and no state dict gets them. Make tensors nn.Parameter; use nn.ModuleList, "
        "nn.ModuleDict or nn.ParameterList instead of plain lists and dicts; or freeze them.",
        parameters=names,
        module=place.module,
        line=place.line,
    )


def _origin_of(flow: GradientFlow, hidden: Mapping[int, str]) -> Place:
    """Return the line that assigns a parameter's holder; else the line that uses it."""
    module, path = flow.subject.replica, min(hidden.values())
    line = assigned(module, path)
    if line is None:
        uses = _uses_of(flow, lambda reached: reached & hidden.keys())
        positions = [position for event in uses for position in event.stack.callers]
        line = assigned_near(module, path, positions)
        line = line or next((event.entry(flow.diagnosis.names).line for event in uses), None)
    return Place(flow.diagnosis.names.get(id(holder(module, path))), line)


def _uses_of(flow: GradientFlow, wanted: Callable[[set[int]], set[int]]) -> list[RecordedCall]:
    """Return a forward's calls that compute with the wanted leaves."""
    recorder, losses = flow.diagnosis.forward.record()
    leaves = set() if losses is None else wanted({*reached_leaves(losses)})
    return [event for event in recorder.events if event.leaves & leaves and event.stack.position]


def _lasting(flow: GradientFlow, leaves: Mapping[int, Tensor]) -> dict[int, Tensor]:
    """Return the leaves that a second forward also uses: parameters, except for their class.

    A leaf that a forward makes for itself (to take a penalty's gradient, say) is not one.
    """
    again: dict[int, Tensor] = {}
    flow.subject.loss.observer = lambda losses: again.update(reached_leaves(losses))
    try:
        flow.subject.forward()
    finally:
        flow.subject.loss.observer = None
    return {i: leaf for i, leaf in leaves.items() if again.get(i) is leaf}

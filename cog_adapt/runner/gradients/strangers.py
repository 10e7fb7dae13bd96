"""Reports parameters in the graph that the module does not hold: no optimizer has them."""

from collections.abc import Mapping

from torch import Tensor, nn

from cog_adapt.runner.gradients.flow import GradientFlow
from cog_adapt.runner.gradients.graph import reached_leaves
from cog_adapt.runner.gradients.held_tensors import unregistered
from cog_adapt.runner.gradients.report import count, some


def judge_strangers(flow: GradientFlow) -> None:
    """Report leaves that get a gradient although neither the module nor its loss registers them."""
    subject, module = flow.subject, flow.guard.module
    loss: object = subject.loss.loss
    holders = [subject.replica, subject.base, module]
    holders += [loss] if isinstance(loss, nn.Module) else []
    known = {id(p) for holder in holders for p in holder.parameters()}
    strangers = {i: leaf for i, leaf in flow.reached.items() if i not in known}
    if any(not isinstance(leaf, nn.Parameter) for leaf in strangers.values()):
        strangers = _lasting(flow, strangers)
    if not strangers:
        return
    paths: dict[int, str] = {}
    for holder in reversed(holders):
        paths |= unregistered(holder)
    hidden = [paths[i] for i in strangers if i in paths]
    everything = {n for n, p in module.named_parameters() if p.is_floating_point()}
    if hidden:
        (flow.exam.fail if everything.issubset(subject.names) else flow.exam.warn)(
            "unregistered",
            f"{count(hidden)} with a gradient but registered nowhere: {some(sorted(hidden))}. No "
            "optimizer and no state dict gets them. Make tensors nn.Parameter; use nn.ModuleList, "
            "nn.ModuleDict or nn.ParameterList instead of plain lists and dicts; or freeze them.",
            sorted(hidden),
            flow.diagnosis.names.get(id(subject.replica)),
        )
    else:
        flow.exam.warn(
            "unregistered",
            f"{count(strangers)} with a gradient in neither the module nor a "
            "loss module (globals, closures?). See that your optimizer is given them.",
        )


def _lasting(flow: GradientFlow, leaves: Mapping[int, Tensor]) -> dict[int, Tensor]:
    """Return those leaves that a second forward uses too: parameters, but for their class.

    A leaf that a forward makes for itself (to take a penalty's gradient, say) is none.
    """
    again: dict[int, Tensor] = {}
    flow.subject.loss.observer = lambda losses: again.update(reached_leaves(losses))
    try:
        flow.subject.forward()
    finally:
        flow.subject.loss.observer = None
    return {i: leaf for i, leaf in leaves.items() if again.get(i) is leaf}

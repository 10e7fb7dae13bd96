"""Step 9 for missing gradients: the parameter is cut off the loss, used elsewhere, or not used."""

from gradient_check.checks.flow import GradientFlow
from gradient_check.checks.loss_dependence import LossDependence
from gradient_check.checks.unused_parameters import judge_unused_parameters
from gradient_check.findings.report import Place, count, some
from gradient_check.instruments.sources import is_in_library

_KEEP = "Keep the values in torch, with their graph, from the parameter to the loss."
_GIVE = "Let the named backward return a gradient for each input that needs one."


def judge_missing_gradients(flow: GradientFlow, missing: list[str], *, leaked: bool) -> None:
    """Report parameters that the loss depends on as cut off, the others as unused.

    Args:
        flow: the gradients.
        missing: names of parameters without a gradient.
        leaked: whether gradients landed in the original, which has been reported already.
    """
    if not missing:
        return
    missing = _not_frozen(flow, _not_declared(flow, missing))
    dependent = LossDependence.of(flow).dependent(missing)
    silent = [name for name in missing if name not in dependent]
    hidden = [name for name in silent if flow.diagnosis.is_cut(name)]
    if dependent or hidden:
        _report_cut(flow, [name for name in missing if name in {*dependent, *hidden}])
    unused = [name for name in silent if name not in hidden]
    if unused and not leaked:
        judge_unused_parameters(flow, unused)


def _not_declared(flow: GradientFlow, missing: list[str]) -> list[str]:
    """Note the parameters that declared stops cut off; return the other names."""
    declared = flow.declared
    if not declared.patterns:
        return missing
    by_name = declared.names(missing)
    groups = {Place(): by_name} if by_name else {}
    stopped = {n: flow.diagnosis.cuts(n) for n in missing if n not in by_name}
    admitted = iter(declared.admits_all([p for places in stopped.values() for p in places]))
    for name, places in stopped.items():
        if places and all([next(admitted) for _ in places]):
            groups.setdefault(places[0], []).append(name)
    for place, names in groups.items():
        declared.note(flow.exam, names, place)
    noted = {name for names in groups.values() for name in names}
    return [name for name in missing if name not in noted]


def _not_frozen(flow: GradientFlow, missing: list[str]) -> list[str]:
    """Report parameters both frozen and stopped, which is intended; return the other names."""
    trains = flow.guard.requires_grad
    thawed = [n for n in missing if not trains[n]] if flow.subject.options.thaws else []
    if len(thawed) == len(flow.subject.names):
        return missing
    stopped = {name: flow.diagnosis.cuts(name) for name in thawed}
    stopped = {name: places for name, places in stopped.items() if places}
    for of_library in (True, False):
        names = [n for n, ps in stopped.items() if _are_a_librarys(ps) is of_library]
        if names:
            _tell_frozen(flow, names, stopped[names[0]][0], is_librarys=of_library)
    return [name for name in missing if name not in stopped]


def _tell_frozen(flow: GradientFlow, names: list[str], place: Place, *, is_librarys: bool) -> None:
    flow.exam.add(
        "NOTE" if is_librarys else "WARN",
        "frozen",
        f"{count(names)} frozen in your module, and also cut off from the gradient: {some(names)}. "
        "To train them, remove the named stop too.",
        parameters=names,
        module=place.module,
        line=place.line,
    )


def _report_cut(flow: GradientFlow, names: list[str]) -> None:
    code, what = _kind_of_cut(flow, names)
    place = flow.diagnosis.missing(names)
    flow.exam.add(
        "FAIL",
        code,
        f"{count(names)} {what}: {some(names)}. {_GIVE if code == 'grad-none' else _KEEP}",
        parameters=names,
        module=place.module,
        line=place.line,
    )


def _kind_of_cut(flow: GradientFlow, names: list[str]) -> tuple[str, str]:
    own = flow.subject.parameters
    if any(id(own[name]) in flow.reached for name in names):
        return "grad-none", "in the graph, but without a gradient from backward"
    all_missing = not flow.gradient_norms
    if all_missing and flow.has_graph:
        return "no-gradient", "without a gradient: the loss's graph begins elsewhere"
    return "graph-cut", "without a gradient although the loss depends on it"


def _are_a_librarys(places: list[Place]) -> bool:
    return all(is_in_library(place.line) for place in places)

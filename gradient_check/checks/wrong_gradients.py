"""Reports gradients that differ from the loss's slope, except intended stops, with the culprit."""

from collections.abc import Mapping, Sequence
from functools import partial

from gradient_check.checks.reversal_advice import advice_for
from gradient_check.checks.slopes import GradientSlopes
from gradient_check.diagnosis.stand_ins import StandIns, find_stand_ins
from gradient_check.findings.examination import attempted
from gradient_check.findings.report import NOWHERE, some
from gradient_check.instruments.differences import Verdict

_ADVICE = (
    "Correct the named backward or cut; declare an intended stop in `stop_gradients`, and a block "
    "whose gradient is intentionally not the slope in `surrogate_gradients`."
)


def judge_wrong_gradients(
    slopes: GradientSlopes, wrong: list[str], rough: list[str]
) -> tuple[list[str], list[str]]:
    """Report blocks that intended stops explain, then wrong blocks; return the rest.

    A stop explains a block if the block's gradient is the slope while the stop's values are held.

    Args:
        slopes: the comparisons.
        wrong: the blocks whose gradients are disproved.
        rough: the blocks whose gradients could not be proved.
    """
    flow = slopes.flow
    names, sites = flow.diagnosis.names, flow.slopes.sites
    nothing = StandIns(flow.subject)
    stops = attempted(lambda: find_stand_ins(flow.subject, names, flow.declared, sites), nothing)
    verdicts = dict(slopes.verdicts)
    if stops.has_stops:
        before, flow.stand_ins = flow.stand_ins, stops
        blocks = wrong + rough
        again = slopes.compare_again
        held = {b: attempted(partial(again, b), verdicts[b]) for b in blocks}
        cured = [b for b, v in held.items() if not (v.wrong or v.rough)]
        flow.stand_ins = stops if cured else before
        _report_stops(slopes, stops, cured)
        verdicts |= held
        rough = [b for b, v in held.items() if v.rough]
        wrong = [b for b, v in held.items() if v.wrong]
    if wrong:
        _report_wrong(slopes, wrong, stops=stops, verdicts=verdicts)
    return wrong, rough


def _parts_of(slopes: GradientSlopes, blocks: Sequence[str]) -> list[str]:
    """Return the blocks that are no wholes; all of them if each is a whole."""
    return [block for block in blocks if block not in slopes.wholes] or list(blocks)


def _report_stops(slopes: GradientSlopes, stops: StandIns, cured: list[str]) -> None:
    if not cured:
        return
    flow, blocks = slopes.flow, _parts_of(slopes, cured)
    names = slopes.names_of(blocks)
    for place in stops.declared[:1]:
        flow.declared.note(flow.exam, names, place)
    for place in stops.libraries[:1] if not stops.declared else ():
        flow.exam.add(
            "WARN",
            "stop-gradient",
            f"a library leaves out a part of the gradient of {some(blocks)} on purpose; the rest "
            "is right.",
            parameters=names,
            module=place.module,
            line=place.line,
        )
    for place in stops.surrogates[:1]:
        flow.exam.add(
            "WARN",
            "surrogate",
            f"the gradient of {some(blocks)} passes a stand-in for the slope of a step "
            "function (straight-through), which cannot be checked; the rest is right.",
            parameters=names,
            module=place.module,
            line=place.line,
        )


def _report_wrong(
    slopes: GradientSlopes, wrong: list[str], *, stops: StandIns, verdicts: Mapping[str, Verdict]
) -> None:
    flow, blocks = slopes.flow, _parts_of(slopes, wrong)
    names = slopes.names_of(blocks)
    if set(flow.declared.names(names)) == set(names):  # each is declared by its own name
        flow.declared.note(flow.exam, names, NOWHERE)
        return
    worst = max(blocks, key=lambda block: verdicts[block].error)
    right = [b for b in verdicts if b not in wrong and b not in slopes.wholes]
    place = attempted(lambda: flow.diagnosis.wrong(names, stops), NOWHERE)
    groups = slopes.groups | {w: own for w, own in slopes.wholes.items() if w != "(all)"}
    ratios = {
        n: verdicts[b].ratio for b in blocks for n in groups.get(b, ()) if len(groups[b]) == 1
    }
    advice = attempted(lambda: advice_for(flow, place, ratios), "")
    flow.exam.add(
        "FAIL",
        "gradient-wrong",
        f"the loss changes {verdicts[worst].ratio:.3g} times as much as the gradient "
        f"of {worst} says (allowed: 1 +- {flow.limits.block:g}); wrong: {some(blocks)}; "
        f"right: {some(right) or 'none'}. {advice or _ADVICE}",
        parameters=names,
        module=place.module,
        line=place.line,
    )

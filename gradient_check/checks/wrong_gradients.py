"""Reports gradients that differ from the loss's slope: intended stops apart, with the culprit."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from gradient_check.checks.flow import GradientFlow
from gradient_check.checks.reversed_gradients import advice_for
from gradient_check.diagnosis.stand_ins import StandIns, find_stand_ins
from gradient_check.findings.examination import attempted
from gradient_check.findings.report import NOWHERE, Place, some
from gradient_check.instruments.differences import Verdict

_ADVICE = (
    "Correct the backward that is named, or the cut; declare a stop that is meant in "
    "`stop_gradients`, and a block whose gradient is meant to be no slope in `surrogate_gradients`."
)

Compare = Callable[[str], Verdict]
"""Takes a block, and compares its gradient with the slope once more."""


class WrongGradients:
    """Reports blocks whose gradients are disproved, or could not be proved.

    Args:
        flow: the gradients.
        groups: the parameters of each block; one that is missing holds all.
        verdicts: the verdict of each block.
    """

    def __init__(
        self,
        flow: GradientFlow,
        groups: Mapping[str, Sequence[str]],
        verdicts: Mapping[str, Verdict],
    ) -> None:
        self.flow = flow
        self.exam = flow.exam
        self.groups = groups
        self.verdicts = dict(verdicts)
        self.stand_ins = StandIns(flow.subject)

    def report(
        self, wrong: list[str], rough: list[str], compare: Compare
    ) -> tuple[list[str], list[str]]:
        """Report what intended stops account for, then what is wrong; return what is left.

        A stop accounts for a block whose gradient is the slope while the stop's values are held.
        """
        flow, names = self.flow, self.flow.diagnosis.names
        sites = flow.slopes.sites
        self.stand_ins = attempted(
            lambda: find_stand_ins(flow.subject, names, flow.declared, sites), self.stand_ins
        )
        if self.stand_ins.has_stops:
            before, flow.stand_ins = flow.stand_ins, self.stand_ins
            known = self.verdicts
            held = {b: attempted(partial(compare, b), known[b]) for b in wrong + rough}
            cured = [b for b, v in held.items() if not (v.wrong or v.rough)]
            flow.stand_ins = self.stand_ins if cured else before
            self._report_stops([b for b in cured if not is_whole(b)] or cured)
            self.verdicts |= held
            rough = [b for b, v in held.items() if v.rough]
            wrong = [b for b, v in held.items() if v.wrong]
        if wrong:
            self._report_wrong(wrong)
        return wrong, rough

    def _names_of(self, blocks: Sequence[str]) -> list[str]:
        names = [name for block in blocks for name in self.groups.get(block, ())]
        return names or list(self.flow.subject.names)

    def _report_stops(self, blocks: list[str]) -> None:
        stops = self.stand_ins
        if not blocks:
            return
        names = self._names_of(blocks)
        for place in stops.declared[:1]:
            self.flow.declared.note(self.exam, names, place)
        for place in stops.libraries[:1] if not stops.declared else ():
            self.exam.add(
                "WARN",
                "stop-gradient",
                f"a library leaves a part of the gradient of {some(blocks)} out on purpose; the "
                "rest is right.",
                parameters=names,
                module=place.module,
                line=place.line,
            )
        for place in stops.surrogates[:1]:
            self.exam.add(
                "WARN",
                "surrogate",
                f"the gradient of {some(blocks)} passes a stand-in for the slope of a step "
                "function (straight-through), which cannot be checked; the rest is right.",
                parameters=names,
                module=place.module,
                line=place.line,
            )

    def _report_wrong(self, wrong: list[str]) -> None:
        blocks = [b for b in wrong if not is_whole(b)] or wrong
        names = self._names_of(blocks)
        place = self._declared_by_name(blocks)
        if place is not None:
            self.flow.declared.note(self.exam, names, place)
            return
        worst = max(blocks, key=lambda b: self.verdicts[b].error)
        right = [b for b in self.verdicts if b not in wrong and not is_whole(b)]
        place = attempted(lambda: self.flow.diagnosis.wrong(names, self.stand_ins), NOWHERE)
        ratios = self._ratios_of(blocks)
        advice = attempted(lambda: advice_for(self.flow, place, ratios), "")
        self.exam.add(
            "FAIL",
            "gradient-wrong",
            f"the loss changes {self.verdicts[worst].ratio:.3g} times as much as the gradient "
            f"of {worst} says (allowed: 1 +- {self.flow.limits.block:g}); wrong: {some(blocks)}; "
            f"right: {some(right) or 'none'}. {advice or _ADVICE}",
            parameters=names,
            module=place.module,
            line=place.line,
        )

    def _ratios_of(self, blocks: Sequence[str]) -> dict[str, float]:
        """Return measured over predicted change of the parameters that are blocks by themselves."""
        ratios = {b: self.verdicts[b].ratio for b in blocks}
        return {
            n: ratios[b] for b in blocks for n in self.groups.get(b, ()) if len(self.groups[b]) == 1
        }

    def _declared_by_name(self, blocks: Sequence[str]) -> Place | None:
        """Return a place if every parameter of these blocks is declared by its own name."""
        names = self._names_of(blocks)
        return NOWHERE if set(self.flow.declared.names(names)) == set(names) else None


def is_whole(block: str) -> bool:
    """Return whether a verdict is that of all parameters, or of a whole portion of them."""
    return block.startswith("(all")

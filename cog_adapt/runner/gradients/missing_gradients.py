"""Step 9 for missing gradients: the parameter is cut off the loss, used elsewhere, or not used."""

from cog_adapt.runner.gradients.copies import Copies
from cog_adapt.runner.gradients.flow import GradientFlow
from cog_adapt.runner.gradients.ownership import in_minority
from cog_adapt.runner.gradients.report import Place, count, some
from cog_adapt.runner.gradients.shaking import Shaking

_MOST_DRAWS = 12
OTHER_MODULE = (
    "the loss does not use the module that it is given: it computes with another one, so nothing "
    "of its own can be trained. Take the argument `module`, not `self.model` or a global."
)


class MissingGradients:
    """Reports why parameters of a flow got no gradient."""

    def __init__(self, flow: GradientFlow) -> None:
        self.flow = flow
        self.subject = flow.subject
        self.exam = flow.exam
        self.diagnosis = flow.diagnosis
        self.copies = Copies(flow.diagnosis)

    def judge(self, missing: list[str], *, leaked: bool) -> None:
        """Report parameters that the loss depends on as cut off, the others as unused.

        Args:
            missing: names of parameters without a gradient.
            leaked: whether gradients landed in the original, which has been reported already.
        """
        if not missing:
            return
        missing = self._not_declared(missing)
        dependent = Shaking.of(self.flow).dependent(missing)
        silent = [name for name in missing if name not in dependent]
        hidden = [name for name in silent if self.diagnosis.is_cut(name)]
        if dependent or hidden:
            self._report_cut([name for name in missing if name in {*dependent, *hidden}])
        unused = [name for name in silent if name not in hidden]
        if unused and not leaked:
            self._report_unused(self._never_reached(unused))

    def _never_reached(self, names: list[str]) -> list[str]:
        """Warn of names that other draws reach, or that are a library's; return the rest."""
        if len(names) == len(self.subject.names):
            return names
        lasting = self._beyond_draws(names)
        self._warn_unreached([name for name in names if name not in lasting])
        others = [name for name in self.subject.names if name not in names]
        library = in_minority(self.subject.replica, lasting, others)
        if library:
            self.exam.warn(
                "unused",
                f"{count(library)} of a library's model without effect on the loss as it is used "
                f"here: {some(library)}. Name them in `unused`, or leave them out of `trainable`.",
                library,
                self.diagnosis.forward.owner(library),
            )
        return [name for name in lasting if name not in library]

    def _beyond_draws(self, names: list[str]) -> list[str]:
        """Return the parameters that no other seed, and no other values, bring into the graph."""
        lasting = list(names)
        for number in range(_MOST_DRAWS):
            reached = self.subject.reached_elsewhere(number) if lasting else set()
            lasting = [name for name in lasting if name not in reached]
        return lasting

    def _warn_unreached(self, names: list[str]) -> None:
        if names:
            self.exam.warn(
                "unreached",
                f"this probe does not reach {count(names)}: {some(names)}. Other draws do (of "
                "routes, of layers left out). They were not verified; give a larger probe.",
                names,
                self.diagnosis.forward.owner(names),
            )

    def _not_declared(self, missing: list[str]) -> list[str]:
        """Note what declared stops keep from its gradient; return the other names."""
        declared = self.flow.declared
        if not declared.patterns:
            return missing
        by_name = declared.names(missing)
        groups = {Place(): by_name} if by_name else {}
        for name in (name for name in missing if name not in by_name):
            places = self.diagnosis.cuts(name)
            if places and all([declared.admits(place) for place in places]):
                groups.setdefault(places[0], []).append(name)
        for place, names in groups.items():
            declared.note(self.exam, names, place)
        noted = {name for names in groups.values() for name in names}
        return [name for name in missing if name not in noted]

    def _report_cut(self, names: list[str]) -> None:
        code, what = self._kind_of_cut(names)
        place = self.diagnosis.missing(names)
        self.exam.fail(
            code,
            f"{count(names)} {what}: {some(names)}. Keep the values in torch, with their "
            "graph, from the parameter to the loss.",
            names,
            place.module,
            place.line,
        )

    def _kind_of_cut(self, names: list[str]) -> tuple[str, str]:
        own = self.subject.parameters
        if any(id(own[name]) in self.flow.reached for name in names):
            return "grad-none", "to which backward gives nothing, although in the graph"
        all_missing = not self.flow.gradient_norms
        if all_missing and self.flow.has_graph:
            return "no-gradient", "without a gradient: the loss's graph begins elsewhere"
        return "graph-cut", "without a gradient although the loss depends on it"

    def _report_unused(self, names: list[str]) -> None:
        """Report the first reason for which the loss can be shown to ignore parameters."""
        if not names:
            return
        if len(names) == len(self.subject.names):
            place = self.diagnosis.forward.other_module()
            if place.line is not None:
                self._report_other_module(names, place)
                return
        place = self.copies.uses_original()
        if place.line is not None:
            self._report_original(names, place)
            return
        place = self.copies.cached(names)
        if place.line is not None:
            self._report_cache(names, place)
            return
        copy, place = self.copies.kept(names)
        self.exam.fail(
            "unused",
            f"{count(names)} without effect on the loss, even when moved by half the "
            f"spread: {some(names)}.{copy} Train fewer (`trainable`), or name them in `unused`.",
            names,
            self.diagnosis.forward.owner(names),
            place.line,
        )

    def _report_other_module(self, names: list[str], place: Place) -> None:
        self.exam.fail("unused", OTHER_MODULE, names, place.module, place.line)

    def _report_original(self, names: list[str], place: Place) -> None:
        self.exam.fail(
            "leak-to-base",
            f"{count(names)} not used by the replica, which computes with the "
            f"original's: {some(names)}. Something inside holds a reference to the original "
            "(a closure, a lambda, a hook); take the module from `self` instead.",
            names,
            place.module,
            place.line,
        )

    def _report_cache(self, names: list[str], place: Place) -> None:
        self.exam.fail(
            "stale-forward",
            f"only the first forward uses {some(names)}: later ones, the training's too, take "
            "a value that it kept. Keep nothing computed from weights between calls.",
            names,
            place.module,
            place.line,
        )

"""What answers a split whose trainings are kept: single methods, and rules of choosing.

A rule is given what `auto` knows: the examples, the answers of each fold's models to the other
half, and what steps on all examples ended with.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import torch
from torch import Tensor

from bench.left_out.cases import Case
from bench.left_out.contestants import FROZEN
from bench.left_out.trainings import Moved, Training, plain_answers
from cog_adapt.runner.auto.cross_answers import Answered
from cog_adapt.runner.heads.calibration import effective_count
from cog_adapt.runner.heads.closed_form import MIXTURE, OF_FEW, ClosedForm, Mixture, fit_classes
from cog_adapt.runner.heads.decision import (
    AVERAGE,
    BASE,
    CLOSED,
    GRADIENTS,
    MIDDLE,
    Decision,
    decide,
)
from cog_adapt.runner.heads.linear_head import LinearHead
from cog_adapt.runner.heads.objective import Labels

BEFORE, RULE, ALWAYS = "chosen by folds", "closed form or average", "average"
TRAINED, LORA = "gradients", "lora"


@dataclass(frozen=True)
class Blend:
    """How a head in closed form and one by gradients are averaged.

    Attributes:
        share: of the closed form.
        scale: of the average, before it is calibrated by the folds.
        is_half_way: whether features and trained head are those in the middle.
    """

    share: float = 0.5
    scale: float = 0.5
    is_half_way: bool = False

    def outputs(self, closed: LinearHead, moved: Moved) -> Tensor:
        """Return the outputs for the texts in question."""
        features = moved.middle_features if self.is_half_way else moved.end_features
        head = middle_of(moved) if self.is_half_way else LinearHead(*moved.end)
        return head.averaged(closed, self.share).scaled(self.scale)(features)


BLENDS: Mapping[str, Blend] = {
    f"{'half-way' if half else 'end'}, {share:g} closed, scale {scale:g}": Blend(share, scale, half)
    for half in (False, True)
    for share in (0.25, 0.5)
    for scale in (0.4, 0.5, 0.6)
}
"""Averages that may be chosen."""


def middle_of(moved: Moved) -> LinearHead:
    """Return the head half-way."""
    weight, bias = ((a + b) / 2 for a, b in zip(moved.begin, moved.end, strict=True))
    return LinearHead(weight, bias)


class Judged:
    """A split, and what each rule answers there."""

    def __init__(self, training: Training) -> None:
        self.training = training
        zeros = torch.zeros(len(training.names))
        self._labels = Labels(training.targets, LinearHead(training.names, zeros))
        self._given = cast(Any, SimpleNamespace(objective=self._labels))
        self._forms = {mixture: self._fitted(mixture) for mixture in (MIXTURE, OF_FEW)}
        self._doubts = {mix: self._labels.doubt(form) for mix, form in self._forms.items()}

    @property
    def count(self) -> int:
        """How many examples there are."""
        return len(self.training.targets)

    def singles(self) -> dict[str, Tensor]:
        """Return the probabilities (M, K) of what chooses nothing."""
        found = {name: answer(self._case) for name, answer in FROZEN.items()}
        found |= {
            "closed form, names count much": self._forms[MIXTURE].head(self._tested).softmax(1),
            CLOSED: self._forms[OF_FEW].head(self._tested).softmax(1),
            TRAINED: LinearHead(*self._whole.end)(self._whole.end_features).softmax(1),
        }
        plain = plain_answers(self.training)
        return found if plain is None else {**found, LORA: plain}

    def before(self) -> tuple[Tensor, Decision]:
        """Choose among base, closed form, gradients and their middle, as `auto` did."""
        form = self._forms[MIXTURE]
        answered = self._answered(MIXTURE, self._paths)
        decision = self._decided(answered)
        chosen = decision.chosen
        if chosen in (BASE, CLOSED):
            head = self._labels.prior if chosen == BASE else form.head
            return head(self._tested).softmax(1), decision
        whole = self._paths(form.head, self._whole)[chosen]
        calibration = answered.calibration(self._given, chosen)
        return self._labels.calibration_of_all(calibration)(whole).softmax(1), decision

    def averaged(self, blend: Blend) -> tuple[Tensor, Tensor, Decision]:
        """Return a calibrated average, what the folds choose of it and the closed form, and why."""

        def paths(closed: LinearHead, moved: Moved) -> dict[str, Tensor]:
            return {AVERAGE: blend.outputs(closed, moved)}

        form = self._forms[OF_FEW]
        answered = self._answered(OF_FEW, paths)
        decision = self._decided(answered)
        calibration = answered.calibration(self._given, AVERAGE)
        always = calibration(blend.outputs(form.head, self._whole)).softmax(1)
        if decision.chosen == CLOSED:
            return always, form.head(self._tested).softmax(1), decision
        return always, always, decision

    @property
    def _case(self) -> Case:
        t = self.training
        return Case(t.row, t.seed, t.digest, t.features, t.targets, t.test, t.wanted, t.names)

    @property
    def _tested(self) -> Tensor:
        return self.training.test

    @property
    def _whole(self) -> Moved:
        return self.training.whole

    def _fitted(self, mixture: Mixture) -> ClosedForm:
        t = self.training
        return fit_classes(t.features, t.targets, self._labels.prior, mixture)

    @staticmethod
    def _paths(closed: LinearHead, moved: Moved) -> dict[str, Tensor]:
        return {
            GRADIENTS: LinearHead(*moved.end)(moved.end_features),
            MIDDLE: middle_of(moved)(moved.middle_features),
        }

    def _answered(
        self, mixture: Mixture, paths: Callable[[LinearHead, Moved], Mapping[str, Tensor]]
    ) -> Answered:
        t, parts = self.training, []
        for fold in t.folds:
            given = t.features[fold.train], t.targets[fold.train], self._labels.prior
            closed = fit_classes(*given, mixture).head
            others = t.features[fold.others]
            outputs = {BASE: self._labels.prior(others), CLOSED: closed(others)}
            parts.append({**outputs, **paths(closed, fold.moved)})
        joined = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
        chosen = torch.cat([fold.others for fold in t.folds])
        return Answered(chosen, joined, self._doubts[mixture])

    def _decided(self, answered: Answered) -> Decision:
        count = effective_count(self._labels.importance(answered.chosen))
        return decide(answered.candidates(self._given), self._labels.name, count)

"""Contestants on splits with stored trainings: single methods, `auto`, and rules to choose from.

A rule gets what `auto` knows: the examples, the answers of each fold's models to the other
half, and the results of steps on all examples.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from types import SimpleNamespace
from typing import Any, cast

import torch
from torch import Tensor

from bench.quality.closed_forms import FROZEN
from bench.quality.trainings import LORA, Fold, Moved, Run, Training
from cog_adapt.runner.auto.cross_answers import CrossAnswers
from cog_adapt.runner.heads.calibration import effective_count
from cog_adapt.runner.heads.closed_form import MIXTURE, ClosedForm, Mixture, fit_classes
from cog_adapt.runner.heads.decision import (
    AVERAGE,
    BASE,
    CLOSED,
    GRADIENTS,
    MIDDLE,
    HeadDecision,
    decide,
)
from cog_adapt.runner.heads.linear_head import LinearHead
from cog_adapt.runner.heads.objective import Labels

AUTO, HEAD, BEFORE = "auto", "plain head", "closed form, names count much"
ONE, FEW, MANY = "one example a label", "fewer than 30 examples", "30 examples or more"
REGIMES = (ONE, FEW, MANY)
"""The regimes, each of which `auto` answers by a rule of its own."""
_STEPS, _SHARE, _SCALE = "24", 0.5, 0.5  # of the average that `auto` makes
_SHARES, _SCALES, _AFTER = (0.25, 0.5, 0.75), (0.4, 0.5, 0.6), (0.8, 0.9, 1.0)
_USUAL_SCALES = (0.6, 0.8, 1.0, 1.2, 1.4)
_POWERS = (0, 1, 2)  # of (K - 1) / K, for fewer labels


class Judged:
    """A split, and each rule's answers to it."""

    def __init__(self, training: Training) -> None:
        self.training, self.case = training, training.case
        zeros = torch.zeros(len(self.case.names))
        self._labels = Labels(self.case.targets, LinearHead(self.case.names, zeros))
        self._given = cast(Any, SimpleNamespace(objective=self._labels))

    @property
    def regime(self) -> str:
        """The regime of `auto`'s rules that answers the split."""
        if self._labels.averages and self._averaged:
            return FEW
        return MANY if self._averaged else ONE

    def singles(self) -> dict[str, Tensor]:
        """Return the probabilities (M, K) of contestants without a choice."""
        tested = self.case.test
        return {
            **{name: answer(self.case) for name, answer in FROZEN.items()},
            BEFORE: self._form(MIXTURE).head(tested).softmax(1),
            HEAD: self._own_form.head(tested).softmax(1),
            LORA: self._plain.outputs[GRADIENTS].softmax(1),
        }

    def rules(self) -> dict[str, Tensor]:
        """Return the probabilities (M, K) of AUTO and of each rule that may replace it."""
        found = {ONE: self._of_one, FEW: self._of_few, MANY: self._of_many}[self.regime]
        return dict(found())

    def seconds(self, rule: str) -> float:
        """Return the CPU time of a rule's steps; 0 without steps."""
        if rule == LORA or (self.regime == ONE and rule != CLOSED):
            return self._plain.seconds
        steps = rule.partition(" ")[0] if self.regime == FEW else self._most
        if rule == AUTO:
            steps = _STEPS if self.regime == FEW else self._most
        return self.training.runs[steps].seconds if steps in self._averaged else 0.0

    def _of_one(self) -> Iterator[tuple[str, Tensor]]:
        """Yield averages at a usual scale: no answer could calibrate them."""
        outputs = self._plain.outputs
        yield AUTO, self._labels.usual_calibration()(outputs[GRADIENTS]).softmax(1)
        apart = (len(self.case.names) - 1) / len(self.case.names)
        for share in (0.0, *_SHARES):
            both = outputs[GRADIENTS].lerp(outputs[CLOSED], share)
            for scale, power in itertools.product(_USUAL_SCALES, _POWERS):
                name = f"{share:g} closed, scale {scale:g}, power {power} of labels"
                yield name, (both * (scale * apart**power)).softmax(1)
        yield CLOSED, self._own_form.head(self.case.test).softmax(1)

    def _of_few(self) -> Iterator[tuple[str, Tensor]]:
        """Yield averages, calibrated by the folds, and then made less sure."""
        yield AUTO, self._average(self._averaged[_STEPS], _SHARE, _SCALE).softmax(1)
        wanted = itertools.product(self._averaged.items(), _SHARES, _SCALES)
        for (steps, run), share, scale in wanted:
            calibrated = self._average(run, share, scale)
            for after in _AFTER:
                name = f"{steps} steps, {share:g} closed, scale {scale:g} and {after:g}"
                yield name, (calibrated * after).softmax(1)
        yield CLOSED, self._own_form.head(self.case.test).softmax(1)

    def _of_many(self) -> Iterator[tuple[str, Tensor]]:
        """Yield the folds' choice, each of the candidates alone, and averages."""
        run = self._averaged[self._most]
        answered = self._answered(run, self._candidates)
        chosen = self._decided(answered).chosen
        closed = self._own_form.head(self.case.test).softmax(1)
        alone = {
            BASE: self._labels.prior(self.case.test).softmax(1),
            CLOSED: closed,
            **{
                name: answered.calibration_of_all(self._given, name)(
                    run.whole.outputs[name]
                ).softmax(1)
                for name in (GRADIENTS, MIDDLE)
            },
        }
        yield AUTO, alone[chosen]
        yield from ((name, alone[name]) for name in (CLOSED, GRADIENTS, MIDDLE))
        for share in _SHARES:
            for scale in _SCALES:
                average = self._average(run, share, scale).softmax(1)
                yield f"{share:g} closed, scale {scale:g}", average

    @property
    def _averaged(self) -> Mapping[str, Run]:
        return {name: run for name, run in self.training.runs.items() if run.folds}

    @property
    def _most(self) -> str:
        return max(self._averaged, key=int, default="")

    @property
    def _plain(self) -> Moved:
        return self.training.runs[LORA].whole

    def _average(self, run: Run, share: float, scale: float) -> Tensor:
        """Return the outputs (M, K) of an average, calibrated as the folds say."""

        def averaged(moved: Moved) -> Tensor:
            return moved.outputs[GRADIENTS].lerp(moved.outputs[CLOSED], share) * scale

        answered = self._answered(run, lambda fold: {AVERAGE: averaged(fold.moved)})
        return answered.calibration_of_all(self._given, AVERAGE)(averaged(run.whole))

    def _candidates(self, fold: Fold) -> dict[str, Tensor]:
        """Return a fold's models' answers to its other half."""
        others = self.case.features[fold.others]
        closed = self._labels.fit(self.case.features, fold.train).head
        steps = {name: fold.moved.outputs[name] for name in (GRADIENTS, MIDDLE)}
        return {BASE: self._labels.prior(others), CLOSED: closed(others), **steps}

    def _answered(self, run: Run, answers: Callable[[Fold], Mapping[str, Tensor]]) -> CrossAnswers:
        """Gather the answers of the folds' models, each to the examples that it has not seen."""
        parts = [answers(fold) for fold in run.folds]
        joined = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
        return CrossAnswers(
            torch.cat([fold.others for fold in run.folds]), joined, self._wrong_share
        )

    def _decided(self, answered: CrossAnswers) -> HeadDecision:
        count = effective_count(self._labels.importance(answered.chosen))
        return decide(answered.candidates(self._given), self._labels.name, count)

    @cached_property
    def _own_form(self) -> ClosedForm:
        return self._labels.fit(self.case.features, torch.arange(len(self.case.targets)))

    @cached_property
    def _wrong_share(self) -> Any:  # noqa: ANN401 - what Answered takes
        return self._labels.wrong_share(self._own_form)

    def _form(self, mixture: Mixture) -> ClosedForm:
        return fit_classes(self.case.features, self.case.targets, self._labels.prior, mixture)

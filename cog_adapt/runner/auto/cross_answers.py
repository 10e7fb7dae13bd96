"""Answers examples by models that have not seen them: two folds, each trained with fewer steps.

The base and the closed form answer the same examples, from features that exist already.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from cog_adapt.runner.adaptation.bounded_rate import adapt_within_bounds
from cog_adapt.runner.adaptation.start import Start
from cog_adapt.runner.auto.head import outputs_of
from cog_adapt.runner.auto.start import AutoStart
from cog_adapt.runner.devices.algebra_thread import beside
from cog_adapt.runner.heads.calibration import NO_WRONG_LABELS, Calibration, WrongLabelShare
from cog_adapt.runner.heads.decision import (
    AVERAGE,
    BASE,
    CLOSED,
    GRADIENTS,
    MIDDLE,
    CandidateScore,
)
from cog_adapt.runner.heads.linear_head import LinearHead
from gradient_check.phases.lora import LORA_A
from gradient_check.phases.replicas import Tensors, serving_replica

_FOLD_STEPS = 0.5  # share of the steps that a run on all examples takes
# for a closed form on features that have learned its own examples
_CLOSED_SHARE, _AVERAGE_SCALE = 0.5, 0.5


@dataclass(frozen=True)
class CrossAnswers:
    """Outputs for examples, by models that have not seen them.

    Attributes:
        chosen: positions of the examples, (M,).
        outputs: by candidate, (M, K) each.
        wrong_share: the estimated share of wrong labels.
    """

    chosen: Tensor
    outputs: Mapping[str, Tensor]
    wrong_share: WrongLabelShare = NO_WRONG_LABELS

    def calibration(self, given: AutoStart, name: str) -> Calibration:
        """Fit the calibration of a candidate."""
        return given.objective.calibration(self.outputs[name], self.chosen, self.wrong_share)

    def calibration_of_all(self, given: AutoStart, name: str) -> Calibration:
        """Return the calibration of a candidate that was trained on all examples.

        An average is less certain than gradients, and keeps the calibration of the folds' models.
        """
        of_folds = self.calibration(given, name)
        return of_folds if name == AVERAGE else given.objective.calibration_of_all(of_folds)

    def candidates(self, given: AutoStart) -> dict[str, CandidateScore]:
        """Return the quality of each candidate's calibrated answers; the base is not calibrated.

        All are judged with one share of wrong labels: a bad candidate must not be excused by its
        own share of wrong labels.
        """
        fitted = {name: self.calibration(given, name) for name in self.outputs if name != BASE}
        calibrated = {n: fitted[n](o) if n in fitted else o for n, o in self.outputs.items()}
        return {
            n: candidate_of(given, outputs=o, chosen=self.chosen, wrong_share=self.wrong_share)
            for n, o in calibrated.items()
        }


def candidate_of(
    given: AutoStart, outputs: Tensor, chosen: Tensor, wrong_share: WrongLabelShare
) -> CandidateScore:
    """Return the quality of outputs for the chosen examples, given the share of wrong labels."""
    objective = given.objective
    losses = objective.losses(outputs, chosen, wrong_share.wrong)
    scores = objective.right(outputs, chosen, wrong_share.wrong)
    said = 0.0 if wrong_share.is_open else wrong_share.wrong
    importance = objective.importance(chosen)
    return CandidateScore.of(
        losses, scores=scores, weights=importance, wrong=said, is_share=objective.is_share
    )


def cross_answers(
    given: AutoStart, wrong_share: WrongLabelShare
) -> Generator[None, None, CrossAnswers]:
    """Train on each fold, and answer the other."""
    steps = max(1, int(given.steps * _FOLD_STEPS))
    parts: list[tuple[Tensor, dict[str, Tensor]]] = []
    for train, others in given.folds:
        fit = partial(given.objective.fit, given.features, train)
        form = yield from beside(fit, entries=given.entries)
        run = given.beginning(train, form, steps)
        # `stop_after` is for runs on all examples
        recipe = replace(run.training.recipe, stop_after=None)
        run = run.with_recipe(recipe)
        trained = yield from trained_on_fold(run)
        features = given.features[others]
        outputs = {BASE: given.objective.prior(features), CLOSED: form.head(features)}
        if given.objective.averages:
            moved = {AVERAGE: averaged(given, form.head, trained)}
        else:
            moved = {GRADIENTS: trained, MIDDLE: middle(run.trained.tensors, trained)}
        for name, tensors in moved.items():
            outputs[name] = yield from _outputs(given, tensors, others)
        parts.append((others, outputs))
    names = parts[0][1]
    joined = {name: torch.cat([outputs[name] for _, outputs in parts]) for name in names}
    return CrossAnswers(torch.cat([others for others, _ in parts]), joined, wrong_share)


def trained_on_fold(run: Start) -> Generator[None, None, Tensors]:
    """Adapt to a fold; its steps are not reported as progress."""
    work = adapt_within_bounds(run.with_recipe(replace(run.training.recipe, previews=0)))
    while True:
        try:
            next(work)
        except StopIteration as stop:
            tensors: Tensors = stop.value[0]
            return tensors
        yield None


def _outputs(given: AutoStart, tensors: Tensors, others: Tensor) -> Generator[None, None, Tensor]:
    start = given.start
    moved = {name: tensor.to(start.training.precision.device) for name, tensor in tensors.items()}
    replica = serving_replica(start.trained.template, moved, start.trained.scales)
    rows = [start.data.examples[i] for i in others.tolist()]
    targets = given.targets_of(rows)
    size = start.training.recipe.batch_size
    looked = outputs_of(
        given.phase, module=replica, layer=given.names.layer, rows=rows, targets=targets, size=size
    )
    outputs, _ = yield from looked
    return outputs


def middle(begin: Mapping[str, Tensor], end: Mapping[str, Tensor]) -> Tensors:
    """Return the tensors half-way; LoRA's A stays, since halving B alone halves the change."""
    return {
        name: tensor if name.rpartition(".")[2] == LORA_A else (begin[name].to(tensor) + tensor) / 2
        for name, tensor in end.items()
    }


def averaged(given: AutoStart, closed: LinearHead, trained: Tensors) -> Tensors:
    """Return trained tensors whose head is the average of the trained and the closed-form head.

    Both heads read the features of the trained layers, so one forward answers. In these features,
    trained examples lie further apart than unseen texts do, so the average's scale is smaller.
    """
    head = given.names.read(trained).averaged(closed, _CLOSED_SHARE).scaled(_AVERAGE_SCALE)
    return {**trained, **given.names.write(head)}

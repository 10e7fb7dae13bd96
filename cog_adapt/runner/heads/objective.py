"""Judges a head's outputs: losses, a score and a calibration, for labels or for numbers.

This module knows no model and no task.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from cog_adapt.runner.heads.calibration import (
    NO_WRONG_LABELS,
    Calibration,
    WrongLabelShare,
    balanced_weights,
    calibrate,
    noisy_label_losses,
    wrong_label_share,
)
from cog_adapt.runner.heads.closed_form import (
    MIXTURE,
    NAMELESS,
    OF_FEW,
    ClosedForm,
    Mixture,
    fit_classes,
    fit_numbers,
    unfitted_classes,
)
from cog_adapt.runner.heads.linear_head import LinearHead
from cog_adapt.runner.heads.suspects import Suspect, suspects_of

_LEAST_TRUST = 0.1
_FEW = 30
_NEAR = 0.05  # tolerance of losses, large enough for 16 bits
# For a head that gradients have trained on one example a label, with many labels; rows of few
# labels are further apart than their examples show (docs/results/left-out.md).
_USUAL_SCALE, _LABELS_POWER = 1.2, 2
_SURER = 0.9  # times the scale: twice a fold's examples and steps make logits larger


@dataclass(frozen=True)
class Labels:
    """Outputs are logits (N, K), targets are class numbers (N,).

    Attributes:
        targets: of all examples.
        prior: the head before any example.
    """

    targets: Tensor
    prior: LinearHead

    name = "accuracy"
    is_share = True

    @property
    def groups(self) -> list[int]:
        """The groups that folds are balanced over: the classes."""
        return [int(target) for target in self.targets]

    @property
    def knows_all(self) -> bool:
        """Whether each class has an example, or a prior."""
        counts = torch.bincount(self.targets, minlength=len(self.prior.weight))
        return bool(((counts > 0) | self.prior.weight.any(1)).all())

    @property
    def begins_with_prior(self) -> bool:
        """Whether gradients begin with the head before any example.

        Half-way from that head to a few examples' solution, more of the base's knowledge is left
        than half-way from their centroids.
        """
        return len(self.targets) < _FEW and bool(self.prior.weight.any(1).all())

    @property
    def averages(self) -> bool:
        """Whether gradients are averaged with the closed form, in place of a choice.

        Answers to so few examples do not show which is better. If no label has two examples, there
        are no answers that could calibrate an average.
        """
        return self.begins_with_prior and int(torch.bincount(self.targets).max()) > 1

    def explains(self, losses: Tensor, outputs: Tensor, chosen: Tensor) -> bool:
        """Return whether a task's losses (N,) are the cross-entropy of its head's outputs."""
        own = self.losses(outputs, chosen).float()
        return torch.allclose(losses, own, rtol=_NEAR, atol=_NEAR)

    def fit(self, features: Tensor, chosen: Tensor) -> ClosedForm:
        """Fit a head to the chosen examples."""
        return fit_classes(
            features[chosen], targets=self.targets[chosen], prior=self.prior, mixture=self._mixture
        )

    @property
    def _mixture(self) -> Mixture:
        if self.averages:
            return OF_FEW
        return MIXTURE if bool(self.prior.weight.any()) else NAMELESS

    def begin(self, features: Tensor, chosen: Tensor, form: ClosedForm) -> LinearHead:
        """Return the head that gradients begin with."""
        if self.begins_with_prior:
            return self.prior
        return unfitted_classes(features[chosen], self.targets[chosen], self.prior)

    def weights(self, form: ClosedForm, chosen: Tensor) -> Tensor:
        """Return the weight of each chosen example in training.

        Labels count the same. An example counts less if its own leave-one-out answer finds its
        label unlikely beside the answer's best label: the label may be wrong.
        """
        targets = self.targets[chosen]
        likely = form.left_out.softmax(1)
        trust = likely.gather(1, targets[:, None])[:, 0] / likely.max(1).values
        balanced = balanced_weights(targets, len(self.prior.weight))
        return balanced * trust.clamp_min(_LEAST_TRUST).double()

    def losses(self, outputs: Tensor, chosen: Tensor, wrong: float = 0.0) -> Tensor:
        """Return the cross-entropy of each chosen example, shape (N,).

        Args:
            outputs: logits, (N, K).
            chosen: positions of the examples, (N,).
            wrong: the expected share of wrong labels.
        """
        return noisy_label_losses(outputs, self.targets[chosen], wrong)

    def importance(self, chosen: Tensor) -> Tensor:
        """Return the weights (N,) for averages in which labels count the same."""
        return balanced_weights(self.targets[chosen], len(self.prior.weight))

    def right(self, outputs: Tensor, chosen: Tensor, wrong: float = 0.0) -> Tensor:
        """Return 1 where the best label is the right one, else 0, shape (N,).

        With a share of wrong labels, the values are corrected: a wrong label agrees with an answer
        only by chance.
        """
        agrees = (outputs.argmax(1) == self.targets[chosen]).double()
        return (agrees - wrong / outputs.shape[1]) / (1 - wrong)

    def wrong_share(self, form: ClosedForm) -> WrongLabelShare:
        """Return the probabilities of shares of wrong labels, by a closed form of all examples.

        The closed form's leave-one-out answers have seen more examples than a fold's answers, and
        are better evidence.
        """
        everything = torch.arange(len(self.targets))
        return wrong_label_share(form.left_out, self.targets, self.importance(everything))

    def suspects(
        self, form: ClosedForm, labels: Sequence[str], wrong_share: WrongLabelShare
    ) -> tuple[Suspect, ...]:
        """Return the examples whose labels look wrong, by the leave-one-out answers."""
        if wrong_share.is_open:
            return ()
        everything = torch.arange(len(self.targets))
        calibrated = self.calibration(form.left_out, everything, wrong_share)(form.left_out)
        return suspects_of(calibrated, self.targets, labels=labels, wrong_share=wrong_share)

    def calibration(
        self, outputs: Tensor, chosen: Tensor, wrong_share: WrongLabelShare
    ) -> Calibration:
        """Fit the calibration of logits from a model that has not seen their examples."""
        return calibrate(
            outputs,
            targets=self.targets[chosen],
            weights=self.importance(chosen),
            wrong_share=wrong_share,
        )

    def usual_calibration(self) -> Calibration:
        """Return the default calibration, for examples that are too few for a fit."""
        classes = len(self.prior.weight)
        apart = 1 - 1 / max(2, classes)
        none = torch.zeros(classes, dtype=torch.float64)
        return Calibration(_USUAL_SCALE * apart**_LABELS_POWER, none)

    def calibration_of_all(self, of_folds: Calibration) -> Calibration:
        """Return the calibration of the model of all examples, from that of the folds' models."""
        return replace(of_folds, scale=of_folds.scale * _SURER)


@dataclass(frozen=True)
class Numbers:
    """Outputs are numbers (N, K), targets are the same.

    Attributes:
        targets: of all examples, (N, K).
        prior: the head before any example.
    """

    targets: Tensor
    prior: LinearHead

    name = "R²"
    is_share = False
    begins_with_prior = False
    averages = False

    @property
    def groups(self) -> list[int]:
        """The groups that folds are balanced over: none."""
        return [0] * len(self.targets)

    def explains(self, losses: Tensor, outputs: Tensor, chosen: Tensor) -> bool:
        """Return True: squares, their halves and other losses all grow with the error."""
        return True

    def fit(self, features: Tensor, chosen: Tensor) -> ClosedForm:
        """Fit a head to the chosen examples."""
        return fit_numbers(features[chosen], self.targets[chosen], self.prior)

    def begin(self, features: Tensor, chosen: Tensor, form: ClosedForm) -> LinearHead:
        """Return the head that gradients begin with."""
        return form.head

    def weights(self, form: ClosedForm, chosen: Tensor) -> Tensor:
        """Return the weight of each chosen example in training: equal weights."""
        return torch.ones(len(chosen), dtype=torch.float64)

    def losses(self, outputs: Tensor, chosen: Tensor, wrong: float = 0.0) -> Tensor:
        """Return the squared error of each chosen example as a share of the variance, (N,)."""
        spread = self.targets.double().var(0, correction=0).clamp_min(1e-12)
        errors = (outputs - self.targets[chosen]).double().square()
        return (errors / spread).mean(1)

    def importance(self, chosen: Tensor) -> Tensor:
        """Return the weights (N,) by which losses and scores are averaged."""
        return torch.ones(len(chosen), dtype=torch.float64)

    def right(self, outputs: Tensor, chosen: Tensor, wrong: float = 0.0) -> Tensor:
        """Return the explained part of the variance, (N,); its mean is R²."""
        return 1 - self.losses(outputs, chosen)

    def wrong_share(self, form: ClosedForm) -> WrongLabelShare:
        """Return no wrong labels: numbers have no labels."""
        return NO_WRONG_LABELS

    def suspects(
        self, form: ClosedForm, labels: Sequence[str], wrong_share: WrongLabelShare
    ) -> tuple[Suspect, ...]:
        """Return none: numbers have no labels."""
        return ()

    def calibration(
        self, outputs: Tensor, chosen: Tensor, wrong_share: WrongLabelShare
    ) -> Calibration:
        """Return the identity: numbers are not calibrated."""
        return self.usual_calibration()

    def usual_calibration(self) -> Calibration:
        """Return the identity."""
        outputs = self.targets.shape[1]
        return Calibration(1.0, torch.zeros(outputs, dtype=torch.float64))

    def calibration_of_all(self, of_folds: Calibration) -> Calibration:
        """Return the identity."""
        return of_folds


Objective = Labels | Numbers

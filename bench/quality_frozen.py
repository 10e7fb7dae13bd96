"""The contestants of `quality_others`: a linear model of frozen features, and the runner.

Seconds are of this process's CPU time, of all threads, and hold the forward over the examples. An
adapter that is a head alone answers from test features that are computed once.
"""

import math
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression, RidgeCV
from torch import Tensor, nn

from bench.data import Split
from bench.frozen_features import FrozenFeatures
from bench.quality_scores import Scores, score
from bench.quality_subjects import Subject
from cog_adapt.runner.adaptation.methods import automatic_learning_rate
from cog_adapt.runner.auto.head import HeadNames
from cog_adapt.runner.config import AUTO, Recipe
from cog_adapt.runner.model_runner import ModelRunner
from cog_adapt.runner.modules.adapters import Adapter
from cog_adapt.runner.task.task import Task

BASE, LINEAR, OWN = "base", "linear", "own"
REFERENCE = (LINEAR, OWN)
"""The better of these, row by row, is what `auto` has to reach."""

_PENALTIES = np.logspace(-3, 3, 13)

Contestant = Callable[[Split, Recipe], Scores]
"""Adapts to a split and is scored on its test; steps and seed are the recipe's."""


@dataclass(frozen=True)
class Model:
    """A subject's model: in a runner, and frozen beside it.

    Attributes:
        subject: what it is of.
        runner: adapts it.
        module: the frozen one.
        features: by the frozen one.
    """

    subject: Subject
    runner: ModelRunner
    module: nn.Module
    features: FrozenFeatures

    @classmethod
    def of(cls, subject: Subject, runner: ModelRunner) -> "Model":
        """Load the frozen one beside the runner's."""
        module = runner.task.load().to(runner.precision.device).eval()
        return cls(subject, runner, module, FrozenFeatures(runner.task, module))

    @property
    def contestants(self) -> Mapping[str, Contestant]:
        """All of them, by name."""
        return {BASE: self.base, LINEAR: self.linear, OWN: self.own, AUTO: self.auto}

    def base(self, split: Split, recipe: Recipe) -> Scores:
        """Answer without looking at the examples."""
        return self._scored(split, None, 0.0)

    def linear(self, split: Split, recipe: Recipe) -> Scores:
        """Fit scikit-learn's logistic or ridge regression; ridge's penalty is chosen by it."""
        began = time.process_time()
        rows = self.features.computed([each.input for each in split.train]).cpu().numpy()
        targets = [each.target for each in split.train]
        if not self._labels:
            model = RidgeCV(_PENALTIES).fit(rows, targets)
            took = time.process_time() - began
            return _score_numbers(torch.from_numpy(model.predict(self._tested(split))), split, took)
        model = LogisticRegression(max_iter=1000).fit(rows, targets)
        took = time.process_time() - began
        likely = torch.from_numpy(model.predict_proba(self._tested(split)))
        return score(likely, model.classes_.tolist(), _targets(split), took)

    def own(self, split: Split, recipe: Recipe) -> Scores:
        """Take all steps of the task's own method; a stated rate keeps `head` from a fit."""
        rate = automatic_learning_rate(self.module, self._task, self.subject.own)
        return self._adapted(split, replace(recipe, method=self.subject.own, learning_rate=rate))

    def auto(self, split: Split, recipe: Recipe) -> Scores:
        """Let `auto` choose."""
        return self._adapted(split, replace(recipe, method=AUTO))

    @property
    def _task(self) -> Task:
        return self.runner.task

    @property
    def _labels(self) -> tuple[str, ...]:
        return self._task.labels(())

    def _adapted(self, split: Split, recipe: Recipe) -> Scores:
        began = time.process_time()
        adapter = self.runner.adapt(split.train, recipe).adapter
        return self._scored(split, adapter, time.process_time() - began)

    def _scored(self, split: Split, adapter: Adapter | None, took: float) -> Scores:
        outputs = self._from_features(split, adapter)
        if outputs is None:
            inputs = [example.input for example in split.test]
            outputs = torch.tensor(self.runner.predict(inputs, adapter))
        elif self._labels:
            outputs = outputs.softmax(1)
        if self._labels:
            return score(outputs, self._labels, _targets(split), took)
        return _score_numbers(outputs.reshape(-1), split, took)

    def _from_features(self, split: Split, adapter: Adapter | None) -> Tensor | None:
        """Return a head's outputs (N, K); None where more than a head was trained."""
        head = re.compile(self._task.head)
        own = {n: t for n, t in self.module.named_parameters() if head.fullmatch(n)}
        begun = self._task.start(self.module, self._labels, ()) if self._labels else own
        tensors = adapter.tensors if adapter else begun
        if not all(head.fullmatch(name) for name in tensors):
            return None
        rows = torch.from_numpy(self._tested(split))
        names = HeadNames.of(own, rows.shape[1])
        assert names is not None
        return names.read({**own, **tensors})(rows)

    def _tested(self, split: Split) -> np.ndarray:
        return self.features.kept([each.input for each in split.test]).cpu().float().numpy()


def _targets(split: Split) -> list[str]:
    return [example.target for example in split.test]


def _score_numbers(outputs: Tensor, split: Split, took: float) -> Scores:
    """Score numbers by R²; they have no log loss and no calibration."""
    targets = torch.tensor([example.target for example in split.test], dtype=torch.float64)
    unexplained = (outputs.double() - targets).square().mean() / targets.var(correction=0)
    return Scores(1 - float(unexplained), math.nan, math.nan, took)

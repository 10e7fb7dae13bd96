"""Contestants with a model of any kind: a linear model of frozen features, and the runner.

Seconds are of this process's CPU time, of all threads, with the forward over the examples. An
adapter that is a head alone answers from test features that are computed once.
"""

import re
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression, RidgeCV
from torch import Tensor, nn

from bench.data import Split
from bench.frozen_features import FrozenFeatures
from bench.quality.features import features_of, inputs_of
from bench.quality.numbers import draw_numbers
from bench.quality.scores import Scores, score, score_numbers
from bench.quality.tasks import task_of
from bench.quality.turns import Contestant
from bench.sets import others
from bench.sets.rows import Row, drawn_from
from cog_adapt.runner.adaptation.methods import automatic_learning_rate
from cog_adapt.runner.auto.head import HeadNames
from cog_adapt.runner.config import AUTO, Recipe, RunnerSettings
from cog_adapt.runner.model_runner import ModelRunner
from cog_adapt.runner.modules.adapters import Adapter
from cog_adapt.runner.task.task import Task

BASE, LINEAR, OWN = "base", "linear", "own"
REFERENCE = (LINEAR, OWN)
"""`auto` has to reach the better of these, row by row."""

_PENALTIES = np.logspace(-3, 3, 13)


@dataclass(frozen=True)
class Model:
    """A task's model in a runner, and a frozen copy.

    Attributes:
        steps: the task's method with gradient steps.
        runner: adapts it.
        module: the frozen copy.
        features: computed by the frozen copy.
    """

    steps: str
    runner: ModelRunner
    module: nn.Module
    features: FrozenFeatures

    @classmethod
    def of(cls, steps: str, runner: ModelRunner) -> "Model":
        """Load the frozen copy beside the runner's model."""
        module = runner.task.load().to(runner.precision.device).eval()
        return cls(steps, runner, module, FrozenFeatures(runner.task, module))

    @property
    def contestants(self) -> Mapping[str, Contestant]:
        """All of them, by name."""
        return {BASE: self.base, LINEAR: self.linear, OWN: self.own, AUTO: self.auto}

    def base(self, split: Split, recipe: Recipe) -> Scores:
        """Answer without the examples."""
        return self._scored(split, None, 0.0)

    def linear(self, split: Split, recipe: Recipe) -> Scores:
        """Fit scikit-learn's logistic or ridge regression; scikit-learn chooses ridge's penalty."""
        began = time.process_time()
        rows = self.features.computed([each.input for each in split.train]).cpu().numpy()
        targets = [each.target for each in split.train]
        if not self._labels:
            model = RidgeCV(_PENALTIES).fit(rows, targets)
            took = time.process_time() - began
            found = torch.from_numpy(model.predict(self._tested(split)))
            return score_numbers(found, _numbers(split), took)
        model = LogisticRegression(max_iter=1000).fit(rows, targets)
        took = time.process_time() - began
        likely = torch.from_numpy(model.predict_proba(self._tested(split)))
        return score(likely, model.classes_.tolist(), _targets(split), took)

    def own(self, split: Split, recipe: Recipe) -> Scores:
        """Take all steps of the task's own method; with a stated rate `head` takes steps too."""
        rate = automatic_learning_rate(self.module, self._task, self.steps)
        return self._adapted(split, replace(recipe, method=self.steps, learning_rate=rate))

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
        outputs = self.from_features(split, adapter)
        if outputs is None:
            inputs = [example.input for example in split.test]
            outputs = torch.tensor(self.runner.predict(inputs, adapter))
        elif self._labels:
            outputs = outputs.softmax(1)
        if self._labels:
            return score(outputs, self._labels, _targets(split), took)
        return score_numbers(outputs.reshape(-1), _numbers(split), took)

    def from_features(self, split: Split, adapter: Adapter | None) -> Tensor | None:
        """Return a head's outputs (N, K); None if more than a head was trained."""
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


def _targets(split: Split) -> list[Any]:
    return [example.target for example in split.test]


def _numbers(split: Split) -> Tensor:
    return torch.tensor(_targets(split), dtype=torch.float64)


RUNS = (OWN, AUTO)


def draw(row: Row, seed: int) -> Split:
    """Draw a split of a set."""
    if others.SOURCES[row.set_name].kind == others.NUMBERS:
        return draw_numbers(row, seed)
    return drawn_from(others.load(row.set_name), row, seed)


@contextmanager
def runs_of(name: str) -> Iterator[Mapping[str, Contestant]]:
    """Return the answers of a set's own runner: by steps of the task's method, and by `auto`."""
    with tempfile.TemporaryDirectory() as folder:  # no adapter of an earlier run must be reused
        settings = RunnerSettings.from_environment().model_copy(
            update={"weights_dir": Path(folder)}
        )
        with ModelRunner(task_of(name), settings) as runner:
            model = Model.of("head", runner)
            kept = replace(model, features=_Kept(name, model))
            yield {OWN: kept.own, AUTO: kept.auto}


class _Kept(FrozenFeatures):
    """Features from disk: test pictures need no forward."""

    def __init__(self, name: str, model: Model) -> None:
        super().__init__(model.runner.task, model.module)
        every = inputs_of(name)
        self._rows = dict(zip(every, features_of(name), strict=True))

    def computed(self, inputs: Sequence[Any]) -> Tensor:
        """Look the features (N, D) of inputs up."""
        return torch.stack([self._rows[each] for each in inputs])

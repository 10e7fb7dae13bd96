"""Trains on splits as `auto` and LoRA do, and stores the results (`trainings`)."""

import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bench.quality.cases import Case
from bench.quality.trainings import (
    LORA,
    TRAININGS,
    Fold,
    Moved,
    Run,
    Training,
    split_of,
    write,
)
from bench.sets.rows import Row
from cog_adapt.runner.adaptation.run import adapt
from cog_adapt.runner.adaptation.start import Start
from cog_adapt.runner.auto.cross_answers import middle
from cog_adapt.runner.auto.head import features_of
from cog_adapt.runner.auto.start import AutoStart, given_of
from cog_adapt.runner.config import Recipe
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.heads.closed_form import ClosedForm
from cog_adapt.runner.heads.decision import CLOSED, GRADIENTS, MIDDLE
from cog_adapt.runner.inference.label_tensors import finished
from cog_adapt.runner.model.loaded_model import LoadedModel
from gradient_check.phases.replicas import Tensors, serving_replica

_METHOD = "lora"
_FOLD_STEPS = 0.5  # as `auto` has it
_PLAIN_STEPS = 40
STEPS = (12, 24)
"""Numbers of steps of an average; more would take longer than the shipped rule."""


class Recorder:
    """Trains on splits, and stores the results.

    Args:
        model: loaded on this thread.
        folder: the folder of the trainings.
    """

    def __init__(self, model: LoadedModel, folder: Path = TRAININGS) -> None:
        self._model, self._folder = model, folder
        self._features: dict[str, Tensor] = {}

    def record(self, row: Row, seed: int) -> bool:
        """Train on a split; return False if a label has no example."""
        split, texts = split_of(row, seed)
        given = self._given(split.train, seed)
        if len(given.start.data.labels) < len(texts.labels):
            return False
        tested = [example.input for example in split.test]
        number = {label: at for at, label in enumerate(given.start.data.labels)}
        case = Case(
            row=row,
            seed=seed,
            digest=texts.digest,
            features=given.features,
            targets=torch.tensor([number[example.target] for example in split.train]),
            test=self._base_features(tested),
            wanted=torch.tensor([number[example.target] for example in split.test]),
            names=given.objective.prior.weight,
        )
        write(Training(case, self._runs(given, tested)), self._folder)
        return True

    def _runs(self, given: AutoStart, tested: Sequence[str]) -> dict[str, Run]:
        form = given.objective.fit(given.features, torch.arange(len(given.features)))
        recipe = Recipe(
            method=_METHOD, seed=given.start.training.recipe.seed, max_steps=_PLAIN_STEPS
        )
        plain = self._model.start(given.start.data.examples, recipe)
        runs = {LORA: Run(self._moved(given, plain, form, tested))}
        if not given.folds:
            return runs
        for steps in STEPS if given.objective.averages else (given.steps,):
            whole = given.beginning(torch.arange(len(given.features)), form, steps)
            runs[str(steps)] = Run(
                self._moved(given, whole, form, tested),
                tuple(self._fold(given, *fold, steps) for fold in given.folds),
            )
        return runs

    def _given(self, examples: Sequence[Example], seed: int) -> AutoStart:
        model = self._model
        recipe = Recipe(method=_METHOD, seed=seed)
        start = finished(model.starting(examples, recipe, is_blind=True))
        features = self._base_features([example.input for example in examples])
        given = given_of(start, model.predictions.phase, features, time.monotonic())
        assert given is not None
        return given

    def _fold(self, given: AutoStart, train: Tensor, others: Tensor, steps: int) -> Fold:
        form = given.objective.fit(given.features, train)
        run = given.beginning(train, form, max(1, int(steps * _FOLD_STEPS)))
        texts = [given.start.data.examples[at].input for at in others.tolist()]
        return Fold(train, others, self._moved(given, run, form, texts))

    def _moved(self, given: AutoStart, run: Start, form: ClosedForm, texts: Sequence[str]) -> Moved:
        began = time.process_time()
        tensors, _ = _last(adapt(run))
        seconds = time.process_time() - began
        features = self._at(given, tensors, texts)
        outputs = {
            GRADIENTS: given.names.read(tensors)(features),
            CLOSED: form.head(features),
        }
        if not given.objective.averages and given.folds:
            half = middle(run.trained.tensors, tensors)
            outputs[MIDDLE] = given.names.read(half)(self._at(given, half, texts))
        return Moved(outputs, seconds)

    def _at(self, given: AutoStart, tensors: Tensors, texts: Sequence[str]) -> Tensor:
        start = given.start
        device = start.training.precision.device
        moved = {name: tensor.to(device) for name, tensor in tensors.items()}
        replica = serving_replica(start.trained.template, moved, start.trained.scales)
        return self._computed(replica, texts)

    def _base_features(self, texts: Sequence[str]) -> Tensor:
        missing = [text for text in dict.fromkeys(texts) if text not in self._features]
        if missing:
            rows = self._computed(self._model.base.module, missing)
            self._features |= dict(zip(missing, rows, strict=True))
        return torch.stack([self._features[text] for text in texts])

    def _computed(self, module: Any, texts: Sequence[str]) -> Tensor:  # noqa: ANN401
        model = self._model
        rows = finished(features_of(model.predictions.phase, module, texts, model.batch_size))
        assert rows is not None
        return rows


def _last(work: Generator[Any, None, Any]) -> Any:  # noqa: ANN401 - what the work returns
    while True:
        try:
            next(work)
        except StopIteration as stop:
            return stop.value

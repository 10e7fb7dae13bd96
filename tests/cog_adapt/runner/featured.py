"""Tiny tasks with features: a frozen trunk, and a head that closed forms know."""

import random
from collections.abc import Generator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from cog_adapt.runner.adaptation.memory_estimate import Needed
from cog_adapt.runner.auto.head import features_of
from cog_adapt.runner.auto.start import given_of
from cog_adapt.runner.config import AUTO, Recipe, RunnerSettings
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.inference.label_tensors import finished
from cog_adapt.runner.model.loaded_model import LoadedModel
from gradient_check.tests.models import LABELS, WIDTH
from tests.cog_adapt.devices import DEVICE
from tests.cog_adapt.models import Labelled, Regression
from tests.cog_adapt.runner.ticks import drained as all_of

FEW_STEPS = Recipe(AUTO, max_steps=6, batch_size=8, learning_rate=0.01)


class TrunkNet(nn.Module):
    """A layer, and a head on what it gives."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, len(LABELS))

    def trunk(self, x: Tensor) -> Tensor:
        return torch.tanh(self.fc(x))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.trunk(x))


class Featured(Labelled):
    """Rows in, a label out; names of labels say something at random."""

    lora_targets = "fc"

    def module(self) -> nn.Module:
        return TrunkNet()

    def features(self, module: Any, batch: Any) -> Tensor | None:
        return module.trunk(**batch)


class Unnamed(Featured):
    """Labels whose names say nothing: the base finds all equally likely."""

    def start(self, module, labels, examples):
        tensors = super().start(module, labels, examples)
        return {name: torch.zeros_like(tensor) for name, tensor in tensors.items()}


class LineNet(nn.Module):
    """A layer, and a number from what it gives."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, 1)

    def trunk(self, x: Tensor) -> Tensor:
        return torch.tanh(self.fc(x))

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.trunk(x)).squeeze(-1)


class Measured(Regression):
    """Rows in, a number out."""

    lora_targets = "fc"
    head = r"out\.(weight|bias)"

    def module(self) -> nn.Module:
        return LineNet()

    def features(self, module: Any, batch: Any) -> Tensor | None:
        return module.trunk(**batch)


def separated(count: int, noise: float = 0.3, seed: int = 0) -> list[Example]:
    """Examples whose labels, in turn, lie in different places."""
    places = random.Random(11)
    means = {name: [places.uniform(-1, 1) for _ in range(WIDTH)] for name in LABELS}
    draw, labels = random.Random(seed), [LABELS[i % len(LABELS)] for i in range(count)]
    return [Example([draw.gauss(mean, noise) for mean in means[name]], name) for name in labels]


def guessed(count: int, seed: int = 0) -> list[Example]:
    """Examples whose labels have nothing to do with them."""
    draw = random.Random(seed)
    rows = [[draw.gauss(0, 1) for _ in range(WIDTH)] for _ in range(count)]
    return [Example(row, LABELS[i % len(LABELS)]) for i, row in enumerate(rows)]


def loaded(task: Labelled) -> LoadedModel:
    """Load a task on this thread."""
    return LoadedModel(task, RunnerSettings(device=DEVICE, precision="fp32"))


def given(model: LoadedModel, examples: list[Example], recipe: Recipe, began: float) -> Any:
    """Gather what `auto` begins with: a `Given`, or None."""
    recipe = replace(recipe, method=model.task.method)
    start = finished(model.starting(examples, recipe))
    inputs, phase = [example.input for example in examples], model.predictions.phase
    features = finished(features_of(phase, model.base.module, inputs, model.batch_size))
    return given_of(start, phase, features, began)


def drained(ticks: Generator[Any, None, Any]) -> tuple[list[Any], Any]:
    """Return the progress that a generator yields, and what it returns."""
    seen, result = all_of(ticks)
    return [each for each in seen if not isinstance(each, Needed | None)], result

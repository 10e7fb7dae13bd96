"""The contestants of the quality benchmark: closed forms, the runner, and its peers.

Each adapts to a split's examples and answers with the probabilities of its test texts. Only the
adaptation is timed; a closed form's time includes the forward over the examples. Frozen features
of test texts are computed once for all splits of a set.
"""

import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch.nn import functional as F

from bench.data import Split
from bench.frozen_features import FrozenFeatures
from bench.quality.outcome import Contestant, Outcome
from bench.report import clock
from bench.rivals import Base, all_logits, labels_of, plain_model
from cog_adapt.runner.config import Recipe
from cog_adapt.runner.errors import InputError
from cog_adapt.runner.model_runner import ModelRunner

ZERO_SHOT, LORA, CENTROID = "zero-shot", "lora", "centroid"
REFERENCE = (LORA, CENTROID)
"""`auto` has to reach the better of these, row by row."""

_SCALE = 10.0  # of a cosine, as the task's own start has it
_CENTROID_SHARE = 0.7


class ClosedForms:
    """Contestants that cost one forward over the examples, and algebra on the frozen features."""

    def __init__(self, base: Base) -> None:
        self._base = base
        self._frozen = FrozenFeatures(base.task, base.module)

    def zero_shot(self, split: Split, recipe: Recipe) -> Outcome:
        """Compare texts with the labels' names; the examples are not used."""
        labels = labels_of(split.train)
        began = self._clock()
        rows = self._names(labels)
        return self._cosines(split, labels, rows, self._clock() - began)

    def centroid(self, split: Split, recipe: Recipe) -> Outcome:
        """Compare texts with .7 of each label's centroid and .3 of its name, all of unit length."""
        labels = labels_of(split.train)
        began = self._clock()
        features, targets = self._examples(split, labels)
        means = torch.stack([features[targets == row].mean(0) for row in range(len(labels))])
        mixed = F.normalize(means, dim=-1).lerp(self._names(labels), 1 - _CENTROID_SHARE)
        rows = F.normalize(mixed, dim=-1)
        return self._cosines(split, labels, rows, self._clock() - began)

    def logistic(self, split: Split, recipe: Recipe) -> Outcome:
        """Fit scikit-learn's logistic regression with its default penalty."""
        labels = labels_of(split.train)
        began = self._clock()
        features, targets = self._examples(split, labels)
        model = LogisticRegression(max_iter=1000).fit(features.cpu().numpy(), targets.numpy())
        took = self._clock() - began
        rows = model.predict_proba(self._frozen.kept(split.texts).cpu().numpy())
        return Outcome(labels, torch.from_numpy(rows), took)

    def _cosines(self, split: Split, labels: Sequence[str], rows: Tensor, took: float) -> Outcome:
        logits = _SCALE * self._frozen.kept(split.texts) @ rows.T
        return Outcome(labels, logits.softmax(-1), took)

    def _examples(self, split: Split, labels: Sequence[str]) -> tuple[Tensor, Tensor]:
        targets = torch.tensor([labels.index(example.target) for example in split.train])
        return self._frozen.computed([example.input for example in split.train]), targets

    def _names(self, labels: Sequence[str]) -> Tensor:
        with torch.inference_mode():
            start = self._base.task.start(self._base.module, labels, ())
        return F.normalize(start["head.weight"], dim=-1)

    def _clock(self) -> float:
        return clock(self._base.precision.device)


def of_runner(runner: ModelRunner, method: str) -> Contestant:
    """Make a contestant of a method of the runner, used as a request uses it."""
    device = runner.precision.device

    def adapt(split: Split, recipe: Recipe) -> Outcome:
        labels = labels_of(split.train)
        began = clock(device)
        adapter = runner.adapt(split.train, replace(recipe, method=method)).adapter
        took = clock(device) - began
        answers = runner.predict(split.texts, adapter, () if adapter else labels)
        rows = [[answer["scores"][label] for label in labels] for answer in answers]
        return Outcome(labels, torch.tensor(rows), took)

    return adapt


def of_peft(base: Base, rate: float) -> Contestant:
    """Make a contestant of the plain PyTorch loop with peft, at a learning rate."""

    def adapt(split: Split, recipe: Recipe) -> Outcome:
        began = clock(base.precision.device)
        model = plain_model(base, split.train, recipe, rate)
        took = clock(base.precision.device) - began
        logits = all_logits(base, model, split.texts)
        return Outcome(labels_of(split.train), logits.softmax(-1), took)

    return adapt


def contestants(runner: ModelRunner, base: Base) -> dict[str, Contestant]:
    """Make all contestants that can run here, with the runner's own rate for the plain loop."""
    one_step = Recipe(method="lora", max_steps=1)
    rate = runner.adapt(base.task.probe(), one_step).report.learning_rate
    closed = ClosedForms(base)
    found: dict[str, Contestant] = {
        ZERO_SHOT: closed.zero_shot,
        CENTROID: closed.centroid,
        "logistic": closed.logistic,
        LORA: of_runner(runner, "lora"),
        "peft": of_peft(base, rate),
    }
    if _has_method("auto"):
        found["auto"] = of_runner(runner, "auto")
    if importlib.util.find_spec("setfit"):
        found["setfit"] = importlib.import_module("bench.quality.setfit_peer").of_setfit(base)
    return found


def _has_method(name: str) -> bool:
    try:
        Recipe(method=name)
    except InputError:
        return False
    return True


def reasons(found: Mapping[str, Contestant]) -> dict[str, str]:
    """Say why a contestant is missing."""
    known = {
        "auto": "the runner has no method auto",
        "setfit": "SetFit is not installed (pip install -r bench/requirements-peers.txt)",
    }
    return {name: reason for name, reason in known.items() if name not in found}

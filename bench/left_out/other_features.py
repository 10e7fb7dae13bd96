"""Frozen features of pictures and tables, computed once a set and kept in `.data/left-out`."""

import functools
import hashlib
import json

import torch
from torch import Tensor, nn

from bench.frozen_features import FrozenFeatures
from bench.left_out.features import FOLDER, FeatureStore, SetFeatures
from bench.left_out.other_tasks import task_of
from bench.sets import others
from bench.sets.labelled import LabelledSet
from cog_adapt.runner.heads.linear_head import LinearHead


class OtherFeatures(FeatureStore):
    """Features by set; heads begin with zeros."""

    def __init__(self) -> None:
        super().__init__()
        self._found: dict[str, SetFeatures] = {}

    def of(self, texts: LabelledSet) -> SetFeatures:
        """Return a set's features, computed if they are not kept."""
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

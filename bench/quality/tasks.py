"""The tasks of the picture and table kinds, for the sets of `bench.sets.others`."""

import functools
import json
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bench.quality.subjects import pictures_task
from bench.sets import others
from cog_adapt import Batch, Example, Task
from examples.tabular.network import Network
from examples.tabular.task import Table

_STEPS, _RATE = 100, 3e-3


class OtherTable(Table):
    """Inputs are rows of numbers as JSON; the network has learned a number from other rows.

    Args:
        name: of the table.
        labels: of the examples; none for numbers, which are in deviations already.
    """

    def __init__(self, name: str, labels: tuple[str, ...] = ()) -> None:
        self._name, self._labels = name, labels

    def load(self) -> nn.Module:
        network = Network(others.table(self._name).width)
        network.load_state_dict(_learned(self._name))
        return network

    def labels(self, examples: Sequence[Example]) -> tuple[str, ...]:
        return self._labels

    def encode(self, inputs: Sequence[Any]) -> Batch:
        return {"x": torch.tensor([json.loads(each) for each in inputs])}

    def encode_targets(self, targets: Sequence[Any], labels: Sequence[str]) -> Tensor:
        return Task.encode_targets(self, targets, labels)

    def predict(self, module: nn.Module, batch: Batch, *_: object) -> list[Any]:
        outputs = module(batch["x"])
        found = outputs.softmax(1) if self._labels else outputs.squeeze(1)
        return cast(list[Any], found.tolist())

    def probe(self) -> list[Example]:
        targets: Sequence[Any] = self._labels[:2] or (0.5, -0.5)
        rows = (json.dumps(row) for row, _ in others.table(self._name).learned)
        return [Example(row, target) for row, target in zip(rows, targets, strict=False)]


def task_of(name: str) -> Task:
    """Make the task of a set."""
    kind = others.SOURCES[name].kind
    if kind == others.PICTURES:
        return pictures_task(others.load(name).labels)
    return OtherTable(name, others.load(name).labels if kind == others.TABLES else ())


@functools.cache
def _learned(name: str) -> dict[str, Tensor]:
    """Train the table kind's network on the rows that take no part."""
    x, y = (torch.tensor(part) for part in zip(*others.table(name).learned, strict=True))
    with torch.random.fork_rng(devices=[]), torch.inference_mode(False), torch.enable_grad():
        torch.manual_seed(0)
        module = Network(x.shape[1])
        optimizer = torch.optim.AdamW(module.parameters(), lr=_RATE)
        for _ in range(_STEPS):
            optimizer.zero_grad()
            F.mse_loss(module(x).squeeze(1), y).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return module.state_dict()

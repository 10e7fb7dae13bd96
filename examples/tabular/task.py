"""Rows of numbers, answered by a network with BatchNorm: a number, or a class.

The model predicts the progress of diabetes after a year. It has learned from the 235 women of the
data of Efron et al. 2004 (arXiv math/0406456); a request may bring patients of its own.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cog_adapt import Batch, Example, InputError, Task, label_scores
from examples.tabular.network import COLUMNS, load_network, numbers_of

MEAN, SPREAD = 152.0, 77.0  # of the numbers that it has learned


class Table(Task):
    """Inputs are rows with these columns; a `target` is a number, a `label` names a class."""

    method = "head"

    def load(self) -> nn.Module:
        return load_network()

    def example(self, row: Mapping[str, Any]) -> Example:
        values = dict(zip(COLUMNS, numbers_of(row, COLUMNS), strict=True))
        if "label" in row:
            return Example(values, str(row["label"]))
        if "target" not in row:
            raise InputError("no 'target' and no 'label'. Give a number as target, or a label.")
        return Example(values, *numbers_of(row, ["target"]))

    def encode(self, inputs: Sequence[Any]) -> Batch:
        return {"x": torch.tensor([numbers_of(row, COLUMNS) for row in inputs])}

    def labels(self, examples: Sequence[Example]) -> tuple[str, ...]:
        names = tuple(dict.fromkeys(e.target for e in examples if isinstance(e.target, str)))
        numbers = [n for n, e in enumerate(examples, 1) if not isinstance(e.target, str)]
        if names and numbers:
            raise InputError(
                f"row {numbers[0]} has a number as target, and other rows have labels. Give all "
                "rows a label, or all a number."
            )
        if len(names) == 1:
            raise InputError(f"all rows have the label {names[0]!r}. Give rows of another label.")
        return names

    def start(
        self, module: Any, labels: Sequence[str], examples: Sequence[Example]
    ) -> dict[str, Tensor]:
        zeros = module.head.weight.new_zeros(len(labels), module.head.in_features)
        return {"head.weight": zeros, "head.bias": zeros[:, 0].clone()} if labels else {}

    def features(self, module: Any, batch: Batch) -> Tensor:
        embedded: Tensor = module.embed(batch["x"])
        return embedded

    def encode_targets(self, targets: Sequence[Any], labels: Sequence[str]) -> Tensor:
        made = super().encode_targets(targets, labels)
        return made if labels else (made - MEAN) / SPREAD

    def loss(self, module: nn.Module, batch: Batch, targets: Tensor) -> Tensor:
        outputs = module(batch["x"])
        if targets.is_floating_point():
            return F.mse_loss(outputs.squeeze(1), targets, reduction="none")
        return F.cross_entropy(outputs, targets, reduction="none")

    def predict(
        self, module: nn.Module, batch: Batch, labels: Sequence[str], options: None
    ) -> list[Any]:
        outputs = module(batch["x"])
        if not labels:
            return [each * SPREAD + MEAN for each in outputs.squeeze(1).tolist()]
        return label_scores(outputs.softmax(1), labels)

    def probe(self) -> list[Example]:
        rows = ((59, 32.1, 101, 157, 93.2, 38, 4, 4.86, 87), (48, 22, 87, 183, 103, 70, 3, 4, 69))
        return [Example(dict(zip(COLUMNS, row, strict=True)), 150.0) for row in rows]

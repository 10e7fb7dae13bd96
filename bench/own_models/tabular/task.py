"""Prices of houses from rows of numbers, by an MLP with BatchNorm."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from cog_adapt import Batch, Example, InputError, Task

COLUMNS = ("area", "rooms", "age", "floor", "distance", "garden")


class HousePrices(Task):
    """Inputs are rows with these columns, targets are prices; there are no labels."""

    method = "all"

    def __init__(self, weights: Path | None = None) -> None:
        self._weights = weights or Path(os.environ["MODEL"])

    def load(self) -> nn.Module:
        module = mlp()
        module.load_state_dict(load_file(self._weights))
        return module

    def example(self, row: Mapping[str, Any]) -> Example:
        (price,) = _numbers(row, ["price"])
        return Example(dict(zip(COLUMNS, _numbers(row, COLUMNS), strict=True)), price)

    def encode(self, inputs: Sequence[Any]) -> Batch:
        return {"x": torch.tensor([_numbers(row, COLUMNS) for row in inputs])}

    def loss(self, module: nn.Module, batch: Batch, targets: Tensor) -> Tensor:
        error: Tensor = module(batch["x"]).squeeze(1).float() - targets
        return error.square()

    def predict(self, module: nn.Module, batch: Batch, *_: object) -> list[Any]:
        prices: list[float] = module(batch["x"]).squeeze(1).tolist()
        return prices

    def probe(self) -> list[Example]:
        rows = ((1.0, 0.5, -1.0, 0.0, 2.0, 0.3), (-0.5, 1.0, 0.2, 1.0, -1.0, 0.7))
        return [Example(dict(zip(COLUMNS, row, strict=True)), sum(row)) for row in rows]


def mlp() -> nn.Module:
    """Build the network without its weights."""
    hidden = (nn.Linear(len(COLUMNS), 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 32))
    return nn.Sequential(*hidden, nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 1))


def _numbers(row: Mapping[str, Any], names: Sequence[str]) -> list[float]:
    try:
        return [float(row[name]) for name in names]
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{error} in {row!r}: a row has the numbers {', '.join(names)}."
        ) from error

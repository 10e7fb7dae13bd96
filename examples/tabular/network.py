"""The model as it was before it was served: columns, layers, and a file of weights."""

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from cog_adapt import InputError, WeightsError

COLUMNS = ("age", "bmi", "bp", "tc", "ldl", "hdl", "tch", "ltg", "glu")


class Network(nn.Module):
    """Scaled columns, two layers of them, and a head of both, with a row for each output."""

    def __init__(self, columns: int = len(COLUMNS), width: int = 32) -> None:
        super().__init__()
        self.scale = nn.BatchNorm1d(columns, affine=False)
        first = (nn.Linear(columns, width), nn.BatchNorm1d(width), nn.ReLU())
        self.body = nn.Sequential(*first, nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU())
        self.head = nn.Linear(width + columns, 1)

    def embed(self, x: Tensor) -> Tensor:
        """Return the head's input, (N, width + columns)."""
        scaled = self.scale(x)
        return torch.cat([self.body(scaled), scaled], 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs, (N, 1) for numbers, (N, classes) for classes."""
        outputs: Tensor = self.head(self.embed(x))
        return outputs.float()


def load_network() -> Network:
    """Read the weights in the file MODEL, or else those beside this file.

    Raises:
        WeightsError: the file is missing, or its weights are of another model.
    """
    file = os.environ.get("MODEL") or str(Path(__file__).with_name("model.safetensors"))
    network = Network()
    try:
        network.load_state_dict(load_file(file))
    except (OSError, SafetensorError, RuntimeError) as error:
        said = " ".join(str(error).split())[:200]
        raise WeightsError(
            f"{file!r} has no weights of {Network.__name__}: {said}. Set MODEL to a file that has."
        ) from error
    return network


def numbers_of(row: Mapping[str, Any], names: Sequence[str]) -> list[float]:
    """Return the numbers of a row under these names.

    Raises:
        InputError: a number is missing, or not finite.
    """
    for name in names:
        if not _is_number(row.get(name)):
            was = f"is {row[name]!r}, no finite number" if name in row else "is missing"
            raise InputError(f"{name!r} {was}. A row has a number for each of {', '.join(names)}.")
    return [float(row[name]) for name in names]


def _is_number(value: object) -> bool:
    try:
        return math.isfinite(float(value))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False

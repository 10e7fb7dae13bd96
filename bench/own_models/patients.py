"""The tabular model's data, and its weights: `python -m bench.own_models.patients` writes them.

442 patients of Efron et al. 2004 come with scikit-learn. The model learns from the 235 women; the
men come with a request.
"""

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from sklearn.datasets import load_diabetes
from torch.nn import functional as F

from examples.tabular import network
from examples.tabular.network import COLUMNS, Network
from examples.tabular.task import MEAN, SPREAD

WEIGHTS = Path(network.__file__).with_name("model.safetensors")
_NAMES = ("age", "sex", *COLUMNS[1:], "target")
_WOMEN, _MEN = 1, 2
_STEPS, _RATE, _DECAY = 80, 3e-3, 1e-2

Row = Mapping[str, Any]


def rows(sex: int) -> list[dict[str, Any]]:
    """Return the patients of a sex, each with its target."""
    data = load_diabetes(scaled=False)
    pairs = zip(data.data.tolist(), data.target.tolist(), strict=True)
    every = [dict(zip(_NAMES, [*x, y], strict=True)) for x, y in pairs]
    return [{n: row[n] for n in (*COLUMNS, "target")} for row in every if row["sex"] == sex]


def men(count: int, seed: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Draw so many men to learn from; the others are the test."""
    every = rows(_MEN)
    random.Random(seed).shuffle(every)
    return every[:count], every[count:]


def write_weights(path: Path = WEIGHTS) -> None:
    """Train the model on the women, and write its weights."""
    known = rows(_WOMEN)
    x = torch.tensor([[float(row[name]) for name in COLUMNS] for row in known])
    y = (torch.tensor([row["target"] for row in known]) - MEAN) / SPREAD
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = Network()
        optimizer = torch.optim.AdamW(module.parameters(), lr=_RATE, weight_decay=_DECAY)
        for _ in range(_STEPS):
            optimizer.zero_grad()
            chosen = torch.randint(len(x), (64,))
            outputs = module(x[chosen]).squeeze(1)
            F.mse_loss(outputs, y[chosen]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    save_file(module.state_dict(), path)


if __name__ == "__main__":
    write_weights()

"""Houses of two made-up towns: the model is trained on one, and a request adapts it to the other.

Whoever has a model of their own has its weights in a file; this makes such a file.
"""

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional as F

from bench.own_models.tabular.task import COLUMNS, mlp

_WORTH = torch.tensor([2.0, 0.5, -0.7, 0.2, -1.0, 0.4])
_ROWS = 512
_STEPS = 300


def write_weights(path: Path) -> None:
    """Train the model on the first town, and write its weights."""
    x, prices = _town(_ROWS, seed=0, worth=_WORTH)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = mlp()
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2)
    for _ in range(_STEPS):
        optimizer.zero_grad()
        F.mse_loss(module(x).squeeze(1), prices).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    save_file(module.state_dict(), path)


def other_town(count: int, seed: int) -> list[dict[str, Any]]:
    """Houses of a town that values gardens, not distance, and is dearer."""
    worth = _WORTH * torch.tensor([1.0, 1.0, 1.0, 1.0, -0.5, 3.0])
    x, prices = _town(count, seed, worth)
    rows = torch.cat([x, prices.unsqueeze(1) + 1.5], 1).tolist()
    return [dict(zip((*COLUMNS, "price"), row, strict=True)) for row in rows]


def _town(count: int, seed: int, worth: Tensor) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(count, len(COLUMNS), generator=draw)
    noise = 0.1 * torch.randn(count, generator=draw)
    return x, x @ worth + 0.5 * x[:, 0].clamp(min=0) * x[:, 5] + noise

"""Healthy hosts with room for a part that goes wrong, and what most cases of the tests share."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gradient_check.exam import case


def squares(output: Tensor) -> Tensor:
    return (output - 0.3).pow(2).flatten(1).mean(1)


def rows(*shape: int) -> Tensor:
    return case.rows(*shape, seed=1)


PLAIN: dict[str, Any] = {"probe": rows(3, 6), "loss": squares}
IMAGES = rows(2, 3, 8, 8)


class Block(nn.Module):
    """A linear layer followed by something that goes wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        return self.spoil(torch.tanh(self.linear(x)))

    def spoil(self, h: Tensor) -> Tensor:
        return h


class Tower(nn.Module):
    """A healthy layer, the block, and a healthy head."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.blocks = nn.ModuleList([Block(), block])
        self.head = nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.first(x))
        for block in self.blocks:
            h = block(h)
        return self.head(h)


class Conv(nn.Module):
    """A convolutional net with room in its middle, for `IMAGES`."""

    def __init__(self, mid: nn.Module) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.mid = mid
        self.tail = nn.Conv2d(8, 4, 3)
        self.fc = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.tail(self.mid(F.gelu(self.stem(x)))).mean((2, 3)))


class CausalTransformer(nn.Module):
    """A small language model, for `IDS` and `next_token`."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(30, 16)
        self.enc = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=True), 3
        )
        self.output = nn.Linear(16, 30)

    def forward(self, ids):
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        return self.output(self.enc(self.embedding(ids), mask=mask, is_causal=True))


IDS = torch.randint(0, 30, (3, 7), generator=torch.Generator().manual_seed(0))


def next_token(module, x):
    logits = module(x)[:, :-1].transpose(1, 2)
    return F.cross_entropy(logits, x[:, 1:], reduction="none").mean(1)
